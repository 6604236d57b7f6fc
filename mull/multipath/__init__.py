"""The multi-path agent: its state (P, D, M, T_m, K, E, R_n) and its transitions."""

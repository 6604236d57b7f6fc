# HOSTILE TEST PROGRAM - run only inside a sandbox.
import ast, json, pickle, re, sys

for name, act in {
    "json": lambda: json.loads("[" * 200_000),
    "json out": lambda: json.dumps(nested()),
    "ast": lambda: ast.parse("-" * 50_000 + "1"),
    "parentheses": lambda: compile("(" * 50_000, "x", "eval"),
    "regex": lambda: re.compile("(" * 20_000 + ")" * 20_000),
    "repr": lambda: repr(nested()),
    "pickle": lambda: pickle.dumps(nested()),
}.items():
    def nested():
        kept = []
        for _ in range(100_000):
            kept = [kept]
        return kept

    try:
        act()
        print("done", name, flush=True)
    except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
        print("blocked", name, type(error).__name__, flush=True)

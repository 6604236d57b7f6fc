"""Language models: the port, the adapters behind it, and providers' errors."""

import os

# LiteLLM reads these while it is imported, and asks the network if they are not set.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")

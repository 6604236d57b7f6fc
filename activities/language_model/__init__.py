"""Language models: the port, the adapters behind it, and what providers say."""

import os

# LiteLLM reads them while it is imported, and asks the network where they are not set.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")

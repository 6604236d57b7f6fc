"""The task queues of Mull's workers."""

# Workflows and quick activities; and calls of models.
WORKFLOWS, LLM = "mull", "mull-llm"
# Untrusted code, which has keys of its own and no secrets of providers or tools.
CODE = "mull-code"
# Tools, MCP servers and environments; and the training of models.
TOOLS, TRAIN = "mull-tools", "mull-train"
PURPOSES = {
    WORKFLOWS: "workflows",
    LLM: "model calls and retrieval",
    CODE: "code in a sandbox",
    TOOLS: "tools of turns, environments of agents",
    TRAIN: "training, tuned reflectors",
}
# Training is needed only where reflectors are trained.
REQUIRED = (WORKFLOWS, LLM, CODE, TOOLS)


def queue_of(environment: str) -> str:
    """Name the queue of an environment: untrusted code runs on a queue without tools' secrets."""
    return CODE if environment == "code" else TOOLS

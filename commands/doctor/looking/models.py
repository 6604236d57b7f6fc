"""Which models runs take, and which providers have a key, by its variable's name alone."""

from collections.abc import Mapping

from commands.doctor.check import Check
from reflection.plain import plain

AREA = "models"
EMBEDDED = "embedded"
# As LiteLLM names providers and reads their variables; one of each row is enough.
PROVIDERS: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex_ai": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
    "mistral": ("MISTRAL_API_KEY",),
    "cohere": ("COHERE_API_KEY",),
    "groq": ("GROQ_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "together_ai": ("TOGETHERAI_API_KEY",),
    "fireworks_ai": ("FIREWORKS_AI_API_KEY", "FIREWORKS_API_KEY"),
    "xai": ("XAI_API_KEY",),
    "perplexity": ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "nvidia_nim": ("NVIDIA_NIM_API_KEY",),
    "huggingface": ("HUGGINGFACE_API_KEY", "HF_TOKEN"),
    "hosted_vllm": ("HOSTED_VLLM_API_BASE",),
    "ollama": ("OLLAMA_API_BASE",),
}
# Models that LiteLLM knows without their provider's name before them.
BARE = {"gpt-": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "claude-": "anthropic"}
NO_KEY = frozenset({"hosted_vllm", "ollama", "vertex_ai", "bedrock"})


def model_checks(environment: Mapping[str, str]) -> list[Check]:
    """Look at the models that are named here, and at the keys of their providers."""
    names = [environment.get(each, "").strip() for each in ("MULL_MODEL", "MULL_JUDGE_MODEL")]
    wanted = [each for each in dict.fromkeys(names) if each]
    return [_model(names[0]), _judge(names[1]), *_keys(environment, wanted)]


def _model(name: str) -> Check:
    if not name:
        do = "set MULL_MODEL where the worker runs, or give --model with each run"
        said = "MULL_MODEL is not set here: a run that names no model needs the worker's own"
        return Check(AREA, "model", "warning", said, (do,))
    if _provider(name) == EMBEDDED:
        said = f"{plain(name, 100)}, a toy: set MULL_MODEL to a real one"
        return Check(AREA, "model", "warning", said)
    return _named("model", name)


def _judge(name: str) -> Check:
    if name:
        return _named("judge", name)
    said = "MULL_JUDGE_MODEL is not set here: drafts are judged by the model that wrote them"
    do = "set MULL_JUDGE_MODEL where the worker runs, or give --judge"
    return Check(AREA, "judge", "warning", said, (do,))


def _named(what: str, name: str) -> Check:
    """Say which model it is; a provider of LiteLLM's that is not listed here is no mistake yet."""
    if _provider(name) in {*PROVIDERS, EMBEDDED}:
        return Check(AREA, what, "ok", plain(name, 100))
    said = f"{plain(name, 100)}: not checked, since its provider is none that doctor knows"
    do = "see that LiteLLM knows it, by a first run"
    return Check(AREA, what, "warning", said, (do,))


def _keys(environment: Mapping[str, str], wanted: list[str]) -> list[Check]:
    found = [
        name for names in PROVIDERS.values() for name in names if environment.get(name, "").strip()
    ]
    checks = [_found(found)] if found else []
    checks += [_missing(each) for each in wanted if _lacks(each, environment)]
    if not checks:
        checks.append(_none(wanted))
    odd = [name for name in found if environment[name] != environment[name].strip()]
    if odd:
        said = f"{', '.join(odd)} begins or ends with white space, which few providers take"
        checks.append(Check(AREA, "keys", "warning", said, ("set it again without",)))
    return checks


def _found(names: list[str]) -> Check:
    return Check(AREA, "keys", "ok", f"set here: {', '.join(names)}")


def _none(wanted: list[str]) -> Check:
    if wanted and all(_provider(each) == EMBEDDED for each in wanted):
        return Check(AREA, "keys", "ok", "none is needed for an embedded model")
    said = "none of a known provider is set here"
    do = "set your provider's, such as OPENAI_API_KEY, where the worker runs"
    return Check(AREA, "keys", "warning", said, (do,))


def _lacks(model: str, environment: Mapping[str, str]) -> bool:
    names = PROVIDERS.get(_provider(model) or "", ())
    optional = _provider(model) in NO_KEY
    return bool(names) and not optional and not any(environment.get(each) for each in names)


def _missing(model: str) -> Check:
    names = " or ".join(PROVIDERS.get(_provider(model) or "", ()))
    said = f"there is none here for {plain(model, 100)}"
    return Check(AREA, "keys", "warning", said, (f"set {names} where the worker runs",))


def _provider(model: str) -> str | None:
    before, slash, _ = model.partition("/")
    if slash:
        return before
    return next((name for start, name in BARE.items() if model.startswith(start)), None)

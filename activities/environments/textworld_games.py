"""The environment `textworld`: text adventures that Microsoft's TextWorld makes from a seed.

A task is one of its games, with its settings, if any, as `tw-make` names them:

    simple                        find food and cook it; goal=brief|detailed|none
    coin_collector:5              a coin, so many rooms away (level 1 to 150, wrong turns from 101)
    treasure_hunter:12            one thing among others, in a maze (level 1 to 30)
    cooking:recipe=2,take=1,go=6,open,cook,cut     a recipe, its ingredients, and so many rooms
    custom:5,10,4                 rooms, things, and commands that win

The same seed makes the same game everywhere. It is compiled by Inform, which TextWorld's wheel
brings along, since its own interpreter in Python has no texts. This takes a second or two, and half
a minute for the hardest mazes.
"""

import re
from collections.abc import Mapping
from contextlib import chdir
from tempfile import TemporaryDirectory
from typing import Any

from activities.environments.port import Environment, Evaluation, StepResult, TaskError, TaskRef
from activities.environments.tasks import episode
from mull.agents.memory import ReflectorExample
from mull.text import EXTRA

Settings = dict[str, Any]
# The settings of each game, with their defaults; a number alone stands for them in their order.
GAMES: Mapping[str, Settings] = {
    "simple": {"rewards": "dense", "goal": "brief", "test": False},
    "coin_collector": {"level": 1},
    "treasure_hunter": {"level": 1},
    "cooking": {"recipe": 1, "take": 0, "go": 1, "recipe_seed": 0, "split": ""}
    | dict.fromkeys(("open", "cook", "cut", "drop"), False),
    "custom": {"rooms": 1, "objects": 1, "quest": 1},
}
# Larger ones take minutes to make.
MOST = {"rooms": 30, "objects": 50, "quest": 15}
# The interpreter does not read longer commands.
COMMAND_LENGTH = 190
# These write and read files, or restart, and do not belong to a game. The interpreter tells words
# apart by their first nine letters. After another word, `q` may be the letter of a thing.
FORBIDDEN = re.compile(
    r"\b(save|restore|restart|quit|undo|oops|(no|un)?script|transcrip\w*|recording|replay|verify"
    r"|version|restrict)\b|tw-|(^|[.,;]|\bthen\b)\s*q\b"
)
STATUS_LINE = re.compile(r">\s+-= [^\n]* =-\s*-?\d+/\d+\s*$")
NO_VERB = "That's not a verb I recognise."


class TextWorldGames(Environment):
    """One game. Its `walkthrough` wins it, and is never shown to agents."""

    name = "textworld"
    instructions = (
        "Play the game to its end: do what it asks for, in as few commands as you can. Write one "
        "command a step, alone on the last line. What a room or a container holds is seen by "
        "looking and opening; what can't be done is said, and costs a step."
    )
    allowed_actions: tuple[str, ...] = ("look", "inventory", "examine THING", "go north")
    planner_examples = (
        episode(
            "Put the old coin on the shelf.\n\n-= Hall =-\nThere is a closed wooden box. There is "
            "a shelf, with nothing on it. There is an exit to the east.",
            "The coin may be in the box.\nopen wooden box",
            "You open the wooden box, revealing an old coin.",
            "take old coin from wooden box",
            "You take the old coin from the wooden box.",
            "put old coin on shelf",
            "You put the old coin on the shelf. The End",
        ),
    )
    reflector_examples = (
        ReflectorExample(
            context=episode(
                "Eat the apple.\n\n-= Bedroom =-\nThere is a locked door leading east. There is a "
                "closed drawer.",
                "go east",
                "You have to open the door first.",
                "open door",
                "You have to unlock the door first.",
            ),
            reflection="I spent my steps on a door that needs a key, and never opened the drawer. "
            "Next time I open the drawer first, take the key, and unlock the door with it.",
        ),
    )

    def __init__(self, task: TaskRef) -> None:
        self._game, self._settings = settings_of(task.task)
        self._task = task.task
        self._played: Any = None
        self._most, self._score, self._earned = 1, 0, 0.0
        self._over = self._won = False
        self.walkthrough: tuple[str, ...] = ()

    def reset(self, seed: int) -> str:
        """Make the game and begin it; return its goal, and the first room."""
        game, text = self._begun(seed)
        self._most, self._score, self._earned = game.max_score, 0, 0.0
        self._over = self._won = False
        self.walkthrough = tuple(game.metadata["walkthrough"])
        commands = (re.sub(r"\{[^}]*\}", "THING", known) for known in game.command_templates)
        self.allowed_actions = tuple(dict.fromkeys(commands))
        # Without the title, which is drawn in letters.
        return text[text.find(game.objective or "-= ") :]

    def _begun(self, seed: int) -> tuple[Any, str]:
        try:
            from textworld import EnvInfos, GameOptions, challenges, generator, start
        except ModuleNotFoundError as error:
            extra = f"games need the extra, which compiles a part: {EXTRA.format('textworld')}"
            raise TaskError(f"{error}: {extra}") from None
        options = GameOptions()
        options.seeds = seed % 2**31
        # Name the goal, and not each step on the way.
        options.grammar.only_last_action = True
        # Its files are read once; without a home Inform leaves others in the current folder.
        with TemporaryDirectory(prefix="mull-textworld-") as folder, chdir(folder):
            options.path = f"{folder}/game.z8"
            try:
                if self._game == "custom":
                    options.nb_rooms = self._settings["rooms"]
                    options.nb_objects = self._settings["objects"]
                    options.quest_length = self._settings["quest"]
                    game = generator.make_game(options)
                else:
                    _, make, _ = challenges.CHALLENGES[f"tw-{self._game}"]
                    game = make(dict(self._settings), options)
            except Exception as error:
                why = f"TextWorld can't make {self._task} from seed {seed}"
                raise TaskError(f"{why}: {str(error) or type(error).__name__}") from error
            path = generator.compile_game(game, options)
            self._played = start(path, EnvInfos(score=True, won=True, lost=True))
            return game, said(self._played.reset().feedback)

    def step(self, action: str) -> StepResult:
        """Give a command to the game; the reward is its share of all points."""
        if self._over:
            return StepResult(observation="The game is over.", done=True)
        command = command_in(action)
        if FORBIDDEN.search(command):
            return StepResult(observation=NO_VERB)
        state, score, over = self._played.step(command)
        # Rewards add up to exactly 1 if the agent gets all points.
        gained = score / self._most - self._earned
        self._score, self._earned = score, self._earned + gained
        self._over, self._won = bool(over), bool(state.won)
        return StepResult(observation=said(state.feedback), reward=gained, done=self._over)

    def evaluate(self, answer: str | None) -> Evaluation:  # noqa: ARG002 - a game needs none
        """Tell whether the game was won; the rewards of the steps are the episode's worth."""
        ended = "won" if self._won else "lost" if self._over else "not finished"
        points = f"{self._score} of {self._most} points"
        feedback = f"The game was {ended}, with {points}."
        return Evaluation(reward=0.0, correct=self._won, feedback=feedback)


def settings_of(task: str) -> tuple[str, Settings]:
    """Read the name of a game and its settings. Raises TaskError."""
    asked, _, rest = task.strip().lower().replace("-", "_").removeprefix("tw_").partition(":")
    # `coin` is short for coin_collector, and so on.
    name = next((game for game in GAMES if asked and f"{game}_".startswith(f"{asked}_")), None)
    if name is None:
        raise TaskError(f"TextWorld has no game {task!r}; it has {', '.join(GAMES)}")
    settings = dict(GAMES[name])
    in_order = iter(GAMES[name])
    for part in filter(None, map(str.strip, rest.split(","))):
        key, _, text = part.partition("=")
        if key.isdecimal():
            key, text = next(in_order, ""), key
        value = int(text) if re.fullmatch(r"\d{1,9}", text) else text or True
        if type(value) is not type(settings.get(key)) or value > MOST.get(key, value):
            known = ", ".join(f"{key}={value}" for key, value in GAMES[name].items())
            raise TaskError(f"{part!r} is not a setting of {name}, or too large; it has {known}")
        settings[key] = value
    return name, settings


def command_in(action: str) -> str:
    """Find the command in the planner's text: its last line, without its introduction."""
    lines = [line.strip() for line in action.splitlines() if line.strip(" \t`")] or [""]
    marked = [line for line in lines if re.match(r"(?i)[*_]*(action|command)\b[^:]{0,8}:|>", line)]
    line = re.sub(r"(?i)^[*_]*(action|command)\b[^:]{0,8}:[*_]*|^>", "", (marked or lines)[-1])
    # The interpreter may hang on other characters.
    plain = re.sub(r"[^ -~]+", " ", line)
    return plain.strip(" `\"'*>.").lower()[:COMMAND_LENGTH]


def said(feedback: str) -> str:
    """Return the game's text, without its status line and its offers at the end."""
    text = STATUS_LINE.sub("", feedback).partition("Would you like to RESTART")[0]
    lines = [line.strip() for line in text.strip().splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))

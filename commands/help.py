"""Help on two levels: `--help` shows what most people need of a command, `--help-all` the rest."""

import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup

# What `--help` shows has this word in its annotation, beside its option.
COMMON = "common"
REQUIRED, MOST_USED, LAST = "Required", "What most people need", "The run and its result"
EXAMPLES = "For example:"
# In a narrower terminal the names of options wrap, too.
WIDE = 60
# Set while every option is shown.
WHOLE = "mull.help_all"
_CODE = re.compile(r"`([^`]+)`")
# By heading the rows under it: a name, its help, and a note.
Panels = dict[str, list[tuple[str, str, str]]]


class Command(TyperCommand):
    """A command, whose help has two levels if it says of its options which are `common`."""

    def format_help(self, ctx: Any, _: Any) -> None:
        """Print the help: all of it, or up to its examples and with the common options."""
        common = getattr(self.callback, "common", None)
        given: list[Any] = self.get_params(ctx)
        params = [one for one in given if not one.hidden]
        said = (self.help or "").split("\n\n")
        if common is None or WHOLE in ctx.meta:
            _print(self.get_usage(ctx), said, _panels(params, ctx))
            return
        needed = {*common, "help"}
        shown = [one for one in params if isinstance(one, TyperArgument) or one.name in needed]
        # How a command reads and writes, and its exit codes, stand below its examples.
        end = next((at for at, one in enumerate(said, 1) if one.startswith("    ")), len(said))
        rest = f"`{ctx.command_path} --help-all` for {len(params) - len(shown)} more options"
        said = [*said[:end], f"See {rest}, exit codes and details."]
        _print(self.get_usage(ctx), said, _panels(shown, ctx, MOST_USED))


class Group(TyperGroup):
    """`mull` itself; each of its commands says under which heading it stands."""

    def format_help(self, ctx: Any, _: Any) -> None:
        """Print the help."""
        panels = _panels(self.get_params(ctx), ctx)
        for name, command in self.commands.items():
            heading = getattr(command, "rich_help_panel", None) or "Commands"
            said = (command.help or "").split("\n\n")[0]
            panels.setdefault(heading, []).append((name, said, ""))
        _print(self.get_usage(ctx), [self.help or ""], panels)


def _panels(params: Iterable[Any], context: Any, together: str = "") -> Panels:
    """Put what is required first, and the others under their headings, or under one heading."""
    panels: Panels = {}
    for one in params:
        argument = isinstance(one, TyperArgument)
        heading = one.rich_help_panel or ("Arguments" if argument else "Options")
        if one.required and not argument:
            heading = REQUIRED
        elif together and heading != REQUIRED:
            heading = together
        panels.setdefault(heading, []).append(_row(one, context))
    return {REQUIRED: panels.pop(REQUIRED), **panels} if REQUIRED in panels else panels


def _row(param: Any, context: Any) -> tuple[str, str, str]:
    """Return the name of an option with its value, its help, and its range and default."""
    name = param.display_name_raw
    if not isinstance(param, TyperArgument):
        value = "" if param.is_flag else param.display_type_rich(context).replace(" range", "")
        name = f"{', '.join(param.opts)} {value}".rstrip()
    notes = []
    if param.min is not None and param.max is not None:
        notes.append(f"{param.min:g} to {param.max:g}")
    if param.default is not None and param.default is not False:
        notes.append(f"{param.default} by default")
    if param.envvar:
        notes.append(f"${param.envvar}")
    return name, param.help or "", f"[{'; '.join(notes)}]" if notes else ""


def _print(usage: str, paragraphs: Iterable[str], panels: Panels) -> None:
    """Print a help to standard output; rich takes a while to import, and only help needs it."""
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    def styled(words: str) -> Text:
        parts = _CODE.split(words)
        return Text.assemble(*((one, "bold" if at % 2 else "") for at, one in enumerate(parts)))

    console = Console(highlight=False)
    console.print(Text(f"{usage}\n", "bold"))
    for said in paragraphs:
        if said.startswith("    "):
            # A command to copy stays as it is.
            console.print(Text(f"{said}\n", "cyan"), soft_wrap=True)
        else:
            words = " ".join(said.split())
            console.print(styled(words if words == EXAMPLES else f"{words}\n"))
    for heading, rows in panels.items():
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold cyan", no_wrap=console.width >= WIDE)
        for name, words, note in rows:
            table.add_row(name, styled(words).append(f" {note}" * bool(note), "dim"))
        console.print(Panel(table, title=heading, title_align="left", border_style="dim"))

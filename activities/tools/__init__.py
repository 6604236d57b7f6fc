"""Tools: the port, the built-in ones, a user's own, and those of MCP servers."""

from activities.tools.functions import tool as tool
from activities.tools.port import ToolError as ToolError

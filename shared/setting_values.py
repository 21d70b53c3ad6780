"""The kinds of values that settings have: their bounds, and how they are described in errors."""

from typing import Annotated

from msgspec import Meta

Days = Annotated[int, Meta(ge=0, le=100_000)]
Context = Annotated[int, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Seconds = Annotated[float, Meta(gt=0, le=1e9, description="a number of seconds above 0, such as 90")]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="a name of 1 to 64 lower-case letters, digits, '_' or '-'",
    ),
]
Sync = Annotated[
    str,
    Meta(
        pattern=r"^(always|([0-9]+(ms|s|m|h))+)$", description="'always', or a span such as '500ms' or '2m'"
    ),
]
Night = Annotated[
    str,
    Meta(
        pattern=r"^(always|([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d)$",
        description="the hours of the night as '22:00-06:00', or 'always'",
    ),
]
Prices = Annotated[
    dict[str, str],
    Meta(description="models with prices in US dollars for a million tokens: openai:gpt-5=1.25/10"),
]
Replicas = Annotated[
    dict[str, Annotated[int, Meta(ge=0, le=100)]],
    Meta(description="agents with numbers from 0 to 100, such as engineer=2,scout=1"),
]
KINDS = ("private", "mail", "files", "repository", "memory", "web")
"""The kinds of text that a prompt may hold beside the task itself, the strictest first: private notes, mail
and calendar, files by name, whole repositories (listings, searches, output of commands), what agents found
out, and what is public."""
Leaves = Annotated[
    dict[str, str | tuple[str, ...]],
    Meta(
        description="servers of models, or '*', with the kinds of text that may go there (all, none, or some "
        f"of {', '.join(KINDS)}), such as *=web memory"
    ),
]

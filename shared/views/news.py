"""Papers and news that frontier told."""

import msgspec


class ToldItem(msgspec.Struct, frozen=True, kw_only=True):
    """A paper or an item of news that was told."""

    id: str
    title: str
    text: str = ""
    link: str = ""
    told_at: str = ""


class NewsList(msgspec.Struct, frozen=True, kw_only=True):
    """Items, the latest first."""

    news: list[ToldItem]

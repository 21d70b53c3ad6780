"""News by story: items of several feeds about one thing are one, told by the best of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shared.errors import ModelError
from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.text.sentences import split_sentences
from shared.text.support import is_supported
from shared.text.words import find_terms
from shared.web.quoting import clean, quote

SAME_WORDS = 0.6
"""The least share of the shorter title's words that two titles of one story have in common."""
LEAST_WORDS = 3
"""The least words that they have in common."""
MAX_TOLD = 400
"""The most characters that a story is told in."""
MAX_SOURCES = 5
"""The most further sources that a story names."""

Item = dict[str, Any]


def group_stories(items: Iterable[Item]) -> list[Item]:
    """The items, of each story the first alone; ``members`` has the others, ``also`` their addresses.

    Several of one host stay together, but only those of other hosts are named as further sources.
    """
    stories: list[tuple[frozenset[str], Item]] = []
    for item in items:
        words = frozenset(find_terms(item["title"]))
        same = next((story for known, story in stories if _is_same(words, known)), None)
        if same is None:
            stories.append((words, {**item, "also": [], "also_from": [], "members": []}))
            continue
        same["members"].append(item)
        hosts = {_host(same["link"]), *map(_host, same["also"])}
        if _host(item["link"]) not in hosts and len(same["also"]) < MAX_SOURCES:
            same["also"].append(item["link"])
            same["also_from"].append(item["source"])
    return [story for _, story in stories]


def _is_same(one: frozenset[str], other: frozenset[str]) -> bool:
    common = len(one & other)
    return common >= LEAST_WORDS and common >= SAME_WORDS * min(len(one), len(other))


def _host(link: str) -> str:
    return (urlsplit(link).hostname or "").removeprefix("www.")


class StoryTold(msgspec.Struct, kw_only=True):
    """A story by its number, in at most two sentences."""

    number: int
    sentences: str


class StoriesTold(msgspec.Struct, kw_only=True):
    """What a model says of stories."""

    stories: list[StoryTold]


async def tell_stories(models: ModelSession, stories: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """The stories with ``told``: two sentences of a model that the sources support, else title and summary.

    The second is a sentence if the model failed.
    """
    plain = {number: {**story, "told": tell_plainly(story)} for number, story in enumerate(stories, start=1)}
    if not stories or not models.model.available:
        return list(plain.values()), []
    listed = [f"{number}. {clean(_known(story), 1_200)}\n" for number, story in plain.items()]
    asked = (
        "Tell each of these stories in at most two short sentences, by its number. Say only what its text "
        "says.\n\n"
    )
    message = Message(role="user", text=asked + quote("the stories", "\n".join(listed)))
    try:
        answer = await models.ask_model_for([message], StoriesTold)
    except ModelError as error:
        return list(plain.values()), [f"The model did not tell the news: {error}"]
    for each in answer.stories:
        if (story := plain.get(each.number)) is not None:
            kept = [
                sentence
                for sentence in split_sentences(clean(each.sentences, MAX_TOLD))[:2]
                if is_supported(sentence, _known(story))
            ]
            story["told"] = " ".join(kept) or story["told"]
    return list(plain.values()), []


def tell_plainly(story: Mapping[str, Any]) -> str:
    """The title, and the first sentence of the summary if it says more."""
    title = str(story["title"]).rstrip(".")
    first = next(iter(split_sentences(str(story.get("summary") or ""))), "")
    says_more = find_terms(first).keys() - find_terms(title).keys()
    return clean(f"{title}: {first}" if says_more else title, MAX_TOLD)


def _known(story: Mapping[str, Any]) -> str:
    texts = [story, *story.get("members", ())]
    return " ".join(f"{each['title']}. {each.get('summary') or ''}" for each in texts)

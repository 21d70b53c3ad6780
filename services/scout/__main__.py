"""Scout: reads repositories, documents and web pages, searches the web, and answers with sources."""

import asyncio
from pathlib import Path

import msgspec

from services.scout.documents import parse
from services.scout.repository import format_reading, read_repository, sources_of
from services.scout.research import CITING, check_citations, research
from services.scout.versions import LANGUAGES, read_support
from shared.agent.base import Agent
from shared.agent.process import run
from shared.contracts import Task
from shared.errors import ActionError, ModelError
from shared.projects.reading import read_project
from shared.skills.documents import PLAIN, read_document
from shared.skills.workspace import outputs_path
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import workspace_path
from shared.tasks.said import is_named
from shared.web.quoting import clean, quote

READING = ("search_web", "fetch_page", "read_document", "read_repository")
"""The actions research is done with."""


class Scout(Agent):
    """Reads repositories, documents and web pages; every statement names its source."""

    async def on_task(self, task: Task) -> Outcome:
        """As any agent; citations of sources that were not read are removed from a model's answer."""
        outcome = await super().on_task(task)
        return outcome if task.context.get("action") else _checked_against_sources(outcome)

    @register_action(
        "Read a repository's documents and structure: what it is, how it is built, what is left open",
        {"repo": "Absolute path of the repository, as a person named it"},
    )
    async def read_repository(self, repo: str) -> Outcome:
        """The RepositoryReading in data key ``reading``; nothing in the repository is run or changed."""
        reading = await asyncio.to_thread(read_repository, self._require_named(repo))
        return Outcome(
            output=format_reading(reading),
            data={"reading": reading.to_dict()},
            evidence_refs=sources_of(reading),
        )

    @register_action(
        "Find out under which licence a repository is",
        {"repo": "Absolute path of the repository, as a person named it"},
    )
    async def read_licence(self, repo: str) -> Outcome:
        """What declares it, with the places, in the output and in data key ``licence``."""
        project = read_project(self._require_named(repo))
        licence = await asyncio.to_thread(lambda: project.licence)
        return Outcome(
            output="\n".join(f"{each.text} ({each.source})." for each in licence),
            data={"licence": [each.to_dict() for each in licence]},
            evidence_refs=tuple(each.source for each in licence if each.source != "."),
        )

    @register_action(
        "Find out which versions of a language a repository supports",
        {
            "repo": "Absolute path of the repository, as a person named it",
            "language": "Python, Node, Go or Rust, with a version or without, such as Python 3.9",
        },
    )
    async def read_support(self, repo: str, language: str) -> Outcome:
        """The answer in the output, what it rests on in data key ``support``."""
        if not language.lower().strip().startswith(tuple(LANGUAGES)):
            raise ActionError(f"{clean(language, 60)} is none of {', '.join(LANGUAGES.values())}")
        project = read_project(self._require_named(repo))
        found = await asyncio.to_thread(read_support, project, language.strip())
        return Outcome(
            output=found.answer, data={"support": msgspec.to_builtins(found)}, evidence_refs=found.sources
        )

    def _require_named(self, repo: str) -> Path:
        """The folder, if it lies in a workspace of the goal or a person named it; raises ActionError."""
        task, folder = self.context.task, Path(repo).expanduser()
        workspace = workspace_path(self.context.settings, task).parent.resolve()
        if not folder.resolve().is_relative_to(workspace) and not is_named(str(folder), task):
            raise ActionError(
                f"{clean(repo, 200)} is not read: it is not in the workspace and no person named it",
                "Name the repository, or the folder it lies in, in the request",
            )
        return folder

    @register_action(
        "Read a document: Markdown, reStructuredText, plain text, PDF or Word (docx)",
        {"path": "Its path in the workspace, or an absolute path that a person named"},
    )
    async def read_document(self, path: str) -> Outcome:
        """The text, quoted, in the output; ``outline``, ``lines`` and ``pages`` in the data."""
        document = await read_document(path, self.context.task, self.context.settings)
        outline = list(document.headings)
        if Path(path).suffix.lower() in PLAIN:
            sections = parse(path, document.text).sections
            outline = [{"title": one.title, "line": one.line} for one in sections if one.title]
        return Outcome(
            output=quote(document.path, document.text),
            data={"outline": outline, "lines": document.lines, "pages": document.pages},
            evidence_refs=(f"{document.path}:1",),
        )

    @register_action(
        "Research a question: search the web, read the pages found, answer with a source for each statement",
        {"question": "The question, in a sentence", "max_pages": "How many pages are read at most, 1 to 10"},
    )
    async def research(self, question: str, max_pages: int = 5) -> Outcome:
        """A model's answer with checked citations, or the passages nearest to the question without a model.

        The pages read are the evidence. Raises ActionError if nothing could be searched or read.
        """
        why = ""
        if self.context.models.model.available:
            try:
                return await self._research_with_model(question)
            except ModelError as error:
                why = str(error)
        return await research(self.context, outputs_path(self.context), question, max_pages, why)

    async def _research_with_model(self, question: str) -> Outcome:
        conclusion = await self.context.run_loop(
            f"Research this question, and answer it from what you read:\n{question}",
            actions=READING,
            persona=CITING,
            alone=True,
        )
        outcome = Outcome(
            output=conclusion.result,
            data={"steps": conclusion.steps},
            evidence_refs=conclusion.evidence_refs[:200],
        )
        checked_outcome = _checked_against_sources(outcome)
        if not checked_outcome.data["sources"]:
            raise ActionError(
                "The answer names no source that was read in this task, so it is not given",
                "Ask again, or name pages to read",
            )
        return checked_outcome


def _checked_against_sources(outcome: Outcome) -> Outcome:
    """``outcome`` without citations of unread sources; data key ``sources`` has those that were read."""
    checked = check_citations(outcome.output, outcome.evidence_refs)
    data = {
        **outcome.data,
        "sources": list(checked.sources),
        "unread": list(dict.fromkeys(url for s in (*checked.dropped, *checked.kept) for url in s.unread)),
    }
    output = checked.describe() if checked.kept or checked.dropped else outcome.output
    return msgspec.structs.replace(outcome, output=output, data=data)


if __name__ == "__main__":
    run(Scout, __file__)

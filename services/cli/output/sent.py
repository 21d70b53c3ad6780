"""Prints what was sent to models: each request, and what it held that the one before did not."""

from rich.console import Console
from rich.text import Text

from services.cli.output.console import print_json, print_wrapped
from shared.errors import NotFound
from shared.llm.sent import Sent, SentEnd, SentRequest, SentText
from shared.text.display import clean, clean_block, count
from shared.text.times import format_clock


def print_sent(sent: Sent, console: Console, *, as_json: bool) -> None:
    """Print the requests in their order; raises NotFound if nothing is recorded.

    A text that an earlier request of the same task held is counted, and not printed again.
    """
    if as_json:
        print_json(sent)
        return
    if not sent.requests:
        raise NotFound("No model was asked for it, or what was sent is no longer kept")
    shown: dict[str, set[str]] = {}
    for number, request in enumerate(sent.requests, 1):
        print_wrapped(_format_head(number, request), console)
        _print(_format_end(request, sent.ends.get(request.id)), console, 2, "dim")
        before = shown.setdefault(f"{request.agent} {request.task_id}", set())
        known = [each for each in request.messages if each in before]
        if known:
            _print(f"{count(len(known), 'message')} as in the request before", console, 2, "dim")
        for name in request.messages:
            if name not in before:
                _print_text(sent.texts.get(name), console)
                before.add(name)
        console.print()


def _format_head(number: int, request: SentRequest) -> Text:
    where = f"{request.place} (local)" if request.is_local else request.place
    about = f", for {clean(request.task_id)}" if request.task_id else ""
    return Text.assemble(
        (f"{number}. {format_clock(request.at)} ", "bold"),
        f"{clean(request.agent)} → {clean(request.model)} at {clean(where)}{about}",
    )


def _format_end(request: SentRequest, end: SentEnd | None) -> str:
    facts = [f"kinds: {' '.join(request.kinds)}"] if request.kinds else []
    facts += [f"withheld: {size:,} characters of {kind}" for kind, size in request.withheld.items()]
    facts += [f"{count(request.masked, 'secret')} masked"] if request.masked else []
    facts += [f"{count(len(request.tools), 'action')} offered"] if request.tools else []
    if end is None:
        facts.append("it has not ended")
    elif end.failed:
        facts.append(f"failed after {end.seconds:.1f} s: {clean(end.failed)}")
    else:
        cost = f", ${end.cost:.4f}" if end.cost else ""
        facts.append(f"{end.input_tokens:,} tokens in, {end.output_tokens:,} out{cost}, {end.seconds:.1f} s")
    return "; ".join(facts)


def _print(line: str, console: Console, indent: int, style: str = "") -> None:
    console.print(Text(f"{'':{indent}}{line}", style), soft_wrap=True)


def _print_text(text: SentText | None, console: Console) -> None:
    if text is None:
        _print("(a text that is no longer kept)", console, 2)
        return
    _print(f"[{text.role}]", console, 2, "bold")
    if text.left_out:
        _print(f"({text.left_out:,} characters, not kept: the record of the task is full)", console, 4)
    for line in clean_block(text.text).splitlines():
        _print(line, console, 4)
    for call in text.calls:
        _print(f"calls {clean(call['name'])} {clean(call['arguments'])}", console, 4)

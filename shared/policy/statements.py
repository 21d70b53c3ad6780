"""What each construct of the shell does with the commands in it: lists, pipelines, branches, loops."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from shared.policy.commands import (
    Redirects,
    judge_assignment,
    judge_command,
    judge_declaration,
    judge_unset,
)
from shared.policy.expansion import UNKNOWN, holds_subscript
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, concatenate
from shared.policy.shell import Shell
from shared.policy.words import Expander

if TYPE_CHECKING:
    from tree_sitter import Node


_ALWAYS = re.compile(
    rb"(while\s+(\[+ 1 \]+|true|:|\(+\s*(1|true)\s*\)+)|until\s+false|for\s*\(\(\s*;\s*;)\s*"
)
"""The head of a loop that never ends."""
_MANY = re.compile(rb"\bseq\b[^)`|]*\b\d{4,}|\.\.\d{4,}\}|<=?\s*\d{4,}")
"""A count of a thousand rounds or more."""


def judge_loop(shell: Shell, node: "Node", scope: Scope) -> Stream:
    """Judge a loop of any kind: its body with every value its variable may have."""
    inner = scope.branch()
    body = node.child_by_field_name("body") or node
    # What the body assigns may already have changed when it begins another round
    stack = [body]
    while stack:
        current = stack.pop()
        if current.type == "variable_assignment":
            name = (current.children[0].text or b"").decode(errors="replace").partition("[")[0]
            inner.offer(name, (inner.value(name), UNKNOWN))
        stack.extend(child for child in current.children if child.child_count)
    if node.type == "for_statement":
        _bind(shell, node, inner)
    text = body.text or b""
    background = b"&" in text.replace(b"&&", b"").replace(b">&", b"").replace(b"&>", b"")
    head = (node.text or b"")[: body.start_byte - node.start_byte]
    if background and b"wait" not in text and (_MANY.search(head) or _ALWAYS.match(head)):
        shell.find("exhaust.fork-bomb", "This loop")
    for child in node.children:
        if not child.is_named:
            continue
        if node.type == "for_statement" and child.id != body.id:
            continue
        shell.walk(child, inner)
    scope.join(inner)
    return UNREAD


def _bind(shell: Shell, node: "Node", scope: Scope) -> None:
    bodies = {"do_group", "compound_statement"}
    named = [child for child in node.children if child.is_named and child.type not in bodies]
    if not named:
        return
    expander = Expander(scope, shell)
    values = tuple(word.text for word in expander.line(named[1:]))
    scope.offer((named[0].text or b"").decode(errors="replace"), values)


_WORDS = frozenset(
    "word string raw_string ansi_c_string translated_string concatenation number simple_expansion "
    "expansion command_substitution process_substitution arithmetic_expansion".split()
)


def _named(node: "Node") -> list["Node"]:
    return [child for child in node.children if child.is_named]


def _program(shell: Shell, node: "Node", scope: Scope) -> Stream:
    named = _named(node)
    return shell.walk(named[0], scope) if len(named) == 1 else shell.sequence(node.children, scope)


def _list(shell: Shell, node: "Node", scope: Scope) -> Stream:
    if node.children and node.children[0].type == "((":
        shell.judge_arithmetic(node)
    return shell.sequence(node.children, scope)


def _chain(shell: Shell, node: "Node", scope: Scope) -> Stream:
    """``a && b && c`` or ``a || b``: what is behind the first may not run, so what it sets may not be set."""
    sign, (first, *rest) = _flatten(node)
    if not rest:
        return shell.sequence(node.children, scope)
    outputs = [shell.walk(first, scope)]
    maybe = scope.branch()
    outputs.extend(shell.walk(part, maybe) for part in rest)
    if sign == "&&":
        scope.cwd = maybe.cwd
    scope.join(maybe)
    return concatenate(outputs)


def _flatten(node: "Node") -> tuple[str, list["Node"]]:
    """The sign between the parts of a chain, and the parts."""
    sign = ""
    parts: list[Node] = []
    while node.type == "list" and len(node.children) == 3:
        left, between, right = node.children
        if parts and not sign == between.type == "&&":
            break
        sign, node = between.type, left
        parts.append(right)
    return sign, [node, *reversed(parts)]


def _pipeline(shell: Shell, node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
    # Each part runs in a shell of its own: what it sets does not reach the others.
    output, named = scope.stdin, _named(node)
    for child in named:
        inner = scope.branch()
        inner.stdin = output
        output = _extended(shell, child, inner, extra if child.id == named[-1].id else ())
    return output


def _extended(shell: Shell, node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
    """Judge ``node``; ``extra`` are words of its last command that follow a redirection."""
    if node.type == "command":
        return judge_command(shell, node, scope, extra)
    if not extra:
        return shell.walk(node, scope)
    if node.type == "pipeline":
        return _pipeline(shell, node, scope, extra)
    named = _named(node)
    if node.type == "negated_command" and named:
        return _extended(shell, named[-1], scope, extra)
    shell.find("unclear.syntax")
    return shell.walk(node, scope)


def _redirected(shell: Shell, node: "Node", scope: Scope) -> Stream:
    whole = node.child_by_field_name("body")
    body = _redirected_part(shell, whole, scope)
    redirects = Redirects(shell, scope)
    for child in node.children:
        if whole is None or child.id != whole.id:
            redirects.take(child)
    before = scope.stdin
    if redirects.stdin is not None:
        scope.stdin = redirects.stdin
    try:
        if body is None:
            output = NOTHING
        elif body.type == "pipeline" and redirects.stdin is not None:
            # A here-document after a pipeline feeds the last command; what the pipe carries counts too
            inner = scope.branch()
            inner.stdin = redirects.stdin or UNREAD
            _extended(shell, _named(body)[-1], inner, redirects.arguments)
            inner.stdin = UNREAD
            output = _pipeline(shell, body, inner, redirects.arguments)
        else:
            output = _extended(shell, body, scope, redirects.arguments)
    finally:
        scope.stdin = before
    return redirects.finish(output)


def _redirected_part(shell: Shell, body: "Node | None", scope: Scope) -> "Node | None":
    """The redirection belongs to the last command of a list alone; those before it are judged here."""
    while body is not None and body.type == "list":
        first, *_, last = _named(body) or [body]
        if first.id == last.id:
            break
        shell.walk(first, scope)
        body = last
    return body


def _function(shell: Shell, node: "Node", scope: Scope) -> Stream:
    name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name_node is None or body is None:
        return NOTHING
    name = (name_node.text or b"").decode(errors="replace")
    scope.functions[name] = body
    inner = scope.branch()
    inner.active = (*scope.active, name)
    inner.stdin = UNREAD
    shell.walk(body, inner)
    return NOTHING


def _if(shell: Shell, node: "Node", scope: Scope) -> Stream:
    branches, complete = [scope.branch()], False
    for child in node.children:
        if child.type in {"elif_clause", "else_clause"}:
            complete |= child.type == "else_clause"
            branches.append(scope.branch())
            shell.sequence(child.children, branches[-1])
        elif child.is_named:
            shell.walk(child, branches[0])
    return _merge(scope, branches, complete)


def _case(shell: Shell, node: "Node", scope: Scope) -> Stream:
    branches = []
    for child in node.children:
        if child.type == "case_item":
            branches.append(scope.branch())
            for part in child.children:
                if part.is_named and part.type not in _WORDS | {"extglob_pattern"}:
                    shell.walk(part, branches[-1])
                else:
                    shell.visit(part, branches[-1])
        elif child.is_named:
            shell.visit(child, scope)
    return _merge(scope, branches, complete=False)


def _merge(scope: Scope, branches: Sequence[Scope], complete: bool) -> Stream:
    if complete:
        scope.adopt(branches[0])
    for branch in branches:
        scope.join(branch)
    return UNREAD


def _words_only(shell: Shell, node: "Node", scope: Scope) -> Stream:
    if node.type == "test_command" and holds_subscript((node.text or b"").decode(errors="replace")):
        shell.find("unclear.spelling", "A part of it")
    shell.visit(node, scope)
    return NOTHING


STATEMENTS: Mapping[str, Callable[[Shell, "Node", Scope], Stream]] = {
    "program": _program,
    "list": _chain,
    "compound_statement": _list,
    "do_group": _list,
    "subshell": lambda shell, node, scope: _program(shell, node, scope.branch()),
    "pipeline": _pipeline,
    "redirected_statement": _redirected,
    "command": judge_command,
    "variable_assignment": judge_assignment,
    "declaration_command": judge_declaration,
    "unset_command": judge_unset,
    "function_definition": _function,
    "if_statement": _if,
    "case_statement": _case,
    "while_statement": judge_loop,
    "for_statement": judge_loop,
    "c_style_for_statement": judge_loop,
    "test_command": _words_only,
    "binary_expression": _words_only,
    "unary_expression": _words_only,
    **dict.fromkeys(_WORDS, _words_only),
}
"""By kind of node; of any other kind what it holds is judged in turn."""

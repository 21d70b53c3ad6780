"""Containers and clusters: looking is everyday, what starts, changes or removes is not."""

import re

from shared.sandbox.policy.call import Call
from shared.sandbox.policy.options import parse_options
from shared.sandbox.policy.scope import Stream
from shared.sandbox.policy.words import Word

SHOWS = re.compile(
    r"^(get|list|describe|show|ls|status|info|version|help|view|logs?|diff|inspect|ps|top|explain"
    r"|history|search|stat|check|validate|whoami|-h|--help|--version|get-.*|list-.*|describe-.*|lookup"
    r"|tree|events|api-resources|api-versions|cluster-info|wait|head-.*|contexts?)$"
)


def judge_container(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """docker, podman: looking and building are everyday."""
    found = parse_options(
        call.args, "H host c context l log-level config f file p project-name", permute=False
    )
    words = found.operands
    texts = [word.text for word in words]
    if found.has("H", "host"):
        call.find("network.remote")
    if texts[:1] in (
        ["container"],
        ["image"],
        ["volume"],
        ["network"],
        ["system"],
        ["builder"],
        ["compose"],
        ["buildx"],
        ["stack"],
        ["swarm"],
        ["node"],
        ["service"],
        ["secret"],
        ["context"],
        ["plugin"],
        ["config"],
        ["manifest"],
    ):
        group, texts, words = texts[0], texts[1:], words[1:]
    else:
        group = ""
    if group == "compose" or call.name in {"docker-compose", "podman-compose"}:
        compose = parse_options(
            words, "f file p project-name profile env-file project-directory", permute=False
        )
        texts, words = [word.text for word in compose.operands], compose.operands
        group = "compose"
    action = texts[0] if texts else ""
    _judge_container_options(call, texts)
    if action in [
        "",
        *"ps images ls list logs inspect info version stats top port history search df config "
        "events diff build bake help --version -v show context wait".split(),
    ]:
        if group == "secret":
            call.find("secret.store")
        if any(re.match(r"(https?|git)://|github\.com/", text) for text in texts[1:]):
            call.find("network.fetch")
        return None
    if action in {"prune", "rmi"} or (
        action in {"rm", "remove"}
        and (
            group
            or "-f" in texts
            or "--force" in texts
            or any("f" in text for text in texts if text.startswith("-") and not text.startswith("--"))
        )
    ):
        call.find("container.destroy")
    elif action == "down":
        call.find("container.destroy" if {"-v", "--volumes", "--rmi"} & set(texts) else "container.change")
    elif action in {"exec", "run"}:
        call.find("container.change")
        _judge_container_command(call, words[1:])
    elif action in {"push", "login", "logout", "publish"}:
        call.find("package.publish" if action == "push" else "secret.store")
    elif group == "compose" and action in {"up", "start", "restart", "pull", "create"}:
        call.find("container.change")
    else:
        call.find("container.change")
    return None


def _judge_container_options(call: Call, texts: list[str]) -> None:
    joined = " ".join(texts)
    if re.search(
        r"--privileged|--cap-add|--pid[= ]host|--net(work)?[= ]host|--ipc[= ]host|--uts[= ]host"
        r"|--userns[= ]host|--device|--security-opt|docker\.sock|containerd\.sock|--cgroup",
        joined,
    ):
        call.find("container.escape")
    for match in re.finditer(r"(?:-v|--volume|--mount)[= ]?(\S+)", joined):
        source = match[1]
        bound = re.search(r"(?:src|source)=([^,]+)", source)
        source = bound[1] if bound else source.partition(":")[0]
        if re.match(r"(/(?!workspace)|~|\$HOME|\.\./)", source):
            call.find("container.escape")


def _judge_container_command(call: Call, words: list[Word]) -> None:
    inner = parse_options(
        words,
        "v volume mount e env w workdir name u user p publish network net entrypoint h hostname m memory "
        "cpus l label platform add-host env-file restart tmpfs ulimit",
        permute=False,
    )
    for word in inner.of("entrypoint"):
        call.script(word.text)
    if len(inner.operands) > 1:
        call.run(inner.operands[1:])


def judge_cluster(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
    """kubectl and the like: showing is everyday, but not of secrets."""
    found = call.options(
        "n namespace context kubeconfig l selector o output f filename c container cluster s server token as"
    )
    words = [word.text for word in found.operands]
    action = words[0] if words else ""
    if found.has("token", "server", "s", "kubeconfig", "as"):
        call.find("cloud.change")
    if action in {"get", "describe", "view"} and any(
        re.match(r"(secrets?|sa|serviceaccounts?)(/|$|,)|.*,secrets?", word) for word in words[1:]
    ):
        call.find("secret.store")
    elif action == "config":
        if words[1:2] == ["view"] and "raw" in found.flags:
            call.find("secret.store")
        elif words[1:2] and words[1] not in {"view", "current-context", "get-contexts", "get-clusters"}:
            call.find("cloud.change")
    elif (action == "rollout" and words[1:2] in (["status"], ["history"])) or (
        action == "auth" and words[1:2] in (["can-i"], ["whoami"])
    ):
        return None
    elif action in {"delete", "drain", "evict", "cordon", "taint"}:
        call.find("cloud.destroy")
    elif action in {"repo", "plugin"} and words[1:2] not in ([], ["list"], ["ls"], ["update"], ["index"]):
        call.find("package.install")
    elif action in {"exec", "run", "debug", "attach", "cp", "port-forward", "proxy"}:
        call.find("cloud.change")
        texts = [word.text for word in call.args]
        if "--" in texts:
            call.run(list(call.args)[texts.index("--") + 1 :])
    elif found.values.get("dry-run") or found.has("dry-run"):
        for word in found.of("f", "filename"):
            call.read(word)
    elif (
        action
        and not SHOWS.match(action)
        and action
        not in ["", *"kustomize template lint completion options plugin dependency repo env".split()]
    ):
        call.find("cloud.change")
    return None

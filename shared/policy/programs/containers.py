"""Containers and clusters: looking is everyday, what starts, changes or removes is not."""

import re

from shared.policy.call import Call, Handler
from shared.policy.options import Options, parse_options
from shared.policy.programs.rows import Step, always, first, row
from shared.policy.words import Word

SHOWS = (
    r"(get|list|describe|show|ls|status|info|version|help|view|logs?|diff|inspect|ps|top|explain"
    r"|history|search|stat|check|validate|whoami|-h|--help|--version|get-.*|list-.*|describe-.*|lookup"
    r"|tree|apps|releases|domains|events|api-resources|api-versions|cluster-info|wait|head-.*|contexts?)"
)


_GROUPS = frozenset(
    "container image volume network system builder compose buildx stack swarm node service secret context "
    "plugin config manifest".split()
)
"""Words that stand before docker's actions: what the action is about."""
_LOOKS = frozenset(
    "ps images ls list logs inspect info version stats top port history search df config events diff build "
    "bake help --version -v show context wait".split()
)
_GLOBAL = "H host c context l log-level config f file p project-name"
_COMPOSE = "f file p project-name profile env-file project-directory"


def judge_container(call: Call) -> None:
    """docker, podman: looking and building are everyday."""
    found = parse_options(call.args, _GLOBAL, permute=False)
    if found.has("H host"):
        call.find("network.remote")
    group, words = _group(call, found.operands)
    texts = [word.text for word in words]
    _judge_container_options(call, texts)
    action = texts[0] if texts else ""
    if "--push" in texts:
        call.find("package.publish")
    if not action or action in _LOOKS:
        if group == "secret":
            call.find("secret.store")
        if action == "inspect" and any("Env" in text or "json ." in text for text in texts):
            call.find("secret.environment")
        if any(re.match(r"(https?|git)://|github\.com/", text) for text in texts[1:]):
            call.find("network.fetch")
        return
    call.find(_action_rule(group, action, texts))
    if action in {"exec", "run"}:
        _judge_container_command(call, words[1:])


def _group(call: Call, words: list[Word]) -> tuple[str, list[Word]]:
    """What the action is about, and the words from the action on."""
    group = ""
    if words and words[0].text in _GROUPS:
        group, words = words[0].text, words[1:]
    if group == "compose" or call.name in {"docker-compose", "podman-compose"}:
        return "compose", parse_options(words, _COMPOSE, permute=False).operands
    return group, words


def _action_rule(group: str, action: str, texts: list[str]) -> str:
    """The rule for an action that does more than look."""
    forced = any(text == "--force" or re.match(r"-\w*f", text) for text in texts)
    if action in {"prune", "rmi"} or (action in {"rm", "remove"} and (group or forced)):
        return "container.destroy"
    if action == "down" and {"-v", "--volumes", "--rmi"} & set(texts):
        return "container.destroy"
    if action in {"push", "publish"}:
        return "package.publish" if action == "push" else "secret.store"
    return "secret.store" if action in {"login", "logout"} else "container.change"


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
    call.apply(inner, "script entrypoint")
    if len(inner.operands) > 1:
        call.run(inner.operands[1:])


_ENTERS = "exec|run|debug|attach|cp|port-forward|proxy"


def _judge_cluster_command(call: Call, found: Options) -> None:
    texts = [word.text for word in call.args]
    if "--" in texts and found.operands and found.operands[0].text in _ENTERS.split("|"):
        call.run(call.args[texts.index("--") + 1 :])


_CLUSTER = row(
    "n namespace context kubeconfig l selector o output f filename c container cluster s server token as",
    Step(has="dry-run", does="read f filename", stop=True),
    Step("cloud.change", has="token server s kubeconfig as"),
    first(
        Step("secret.environment", words="get (values|all|manifest)", program="helm"),
        Step(
            "secret.store",
            words="(get|describe|view) ([^ ]* )*?((secrets?|sa|serviceaccounts?)[/ ,]|[^ ]*,secrets?)[^ ]*",
        ),
        Step("secret.store", words="config view", has="raw"),
        Step("cloud.change", words="config (?!view |current-context |get-contexts |get-clusters )[^ ]+"),
        Step(words="config|rollout (status|history)|auth (can-i|whoami)"),
        Step("cloud.destroy", words="delete|drain|evict|cordon|taint"),
        Step("package.install", words="(repo|plugin) (?!list |ls |update |index )[^ ]+"),
        Step("cloud.change", words=_ENTERS),
        Step(program="stern"),
        Step(words=SHOWS),
        # What is done with files of the workspace alone.
        Step(words="build|analyze|kustomize|template|lint|completion|options|plugin|dependency|repo|env"),
        Step("cloud.change", words="[^ ]+"),
    ),
    _judge_cluster_command,
)
"""kubectl and the like: showing is everyday, but not of secrets."""
PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("docker podman nerdctl docker-compose podman-compose buildah".split(), judge_container),
    **dict.fromkeys("ctr crictl runc crun lxc lxd incus skopeo".split(), always("container.escape")),
    **dict.fromkeys(
        "kubectl oc helm k3s k9s istioctl kustomize flux argocd linkerd kubeadm minikube kind k3d stern "
        "velero eksctl".split(),
        _CLUSTER,
    ),
}

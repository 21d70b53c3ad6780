"""Containers, clusters, clouds, queues and other services that people share."""

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
"""Words before docker's actions: the kind of object."""
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


_DESTROYS = (
    r"(delete|destroy|terminate|remove|purge|rb|rm|drop|erase|wipe|nuke|drain|evict|deprovision|truncate"
    r"|flush\w*|reset|kill|delete-.*|terminate-.*|remove-.*|purge-.*|destroy-.*|deregister-.*|.*:(destroy"
    r"|delete|remove|reset)|schedule-key-deletion|uninstall|decommission|cordon|prune|abandon|.*-delete)"
)
_SECRETS = (
    r".*(?i:secret|credential|password|token|access-key|get-parameter|kms|print-access|login|auth|session|keys?$"
    r"|sts|iam|config-view|--raw|--with-decryption).*"
)


_NO_IDENTITIES = (
    r"(?!iam (list-(users|roles|policies|groups|attached-[^ ]*|instance-profiles|entities-[^ ]*)"
    r"|get-(user|role|policy|policy-version|group|role-policy|user-policy|account-summary)) "
    r"|sts get-caller-identity |auth (status|list) ).*"
)
"""Not what names accounts and what they may do, and gives nothing to log in with."""


def _judge_flags(call: Call, found: Options) -> None:
    if not found.operands and found.flags - {"version", "help", "h", "v"}:
        call.find("cloud.change")


_CLOUD = row(
    "region profile output query endpoint-url project zone subscription g resource-group n name a app t team",
    Step("secret.store", words="configure (?!list |list-profiles )"),
    first(
        Step("cloud.destroy", operand=_DESTROYS),
        Step("secret.store", operand=_SECRETS, words=_NO_IDENTITIES),
        Step("secret.store", has="with-decryption"),
        Step("secret.store", operand=".*with-decryption.*"),
        Step("network.send", words="s3 (cp|sync|mv)", does="read-deep 2:"),
        Step("cloud.change", has="prod"),
        Step(operand=SHOWS),
        Step("cloud.change", words="[^ ]+"),
    ),
    _judge_flags,
)
"""Cloud command lines: showing is asked after only if it shows credentials."""


_PLANS = frozenset(
    "fmt validate plan show graph providers version init get test help preview diff synth ls list about lint "
    "state".split()
)


def judge_infrastructure(call: Call) -> None:
    """terraform, pulumi: plans are everyday, changes are not."""
    texts = [word.text for word in call.args]
    words = [text for text in texts if not text.startswith("-")]
    action, second = (*words, "", "")[:2]
    destroys = action != "plan" and {"-destroy", "--destroy"} & set(texts)
    if action == "destroy" or destroys or (action == "state" and second not in {"", "list", "show"}):
        call.find("cloud.destroy")
    elif not action or action in _PLANS or (action == "workspace" and second in {"list", "show", "select"}):
        if any(text.startswith(("-from-module", "--from-module")) for text in texts):
            call.find("network.fetch")
        for text in texts:
            if text.startswith("-out="):
                call.write(Word(text.partition("=")[2]))
    elif action == "output":
        call.find("secret.environment")
    else:
        call.find("cloud.destroy" if action == "workspace" and "delete" in words else "cloud.change")


_GH = row(
    "R repo q jq t template L limit s state json b body title F body-file H head B base a assignee l label X "
    "method f raw-field field input",
    Step(words="(?!api ).*", does="read F body-file input"),
    first(
        Step("secret.store", words="auth (?!status )|secret|variable|ssh-key|gpg-key|codespace"),
        Step("cloud.destroy", words="[^ ]* (delete|archive)"),
        Step("network.send", words="gist (create|edit)", does="read 2:"),
        Step("cloud.change", words="api", has="X method f F field raw-field input"),
        Step(words="api"),
        Step("package.install", words="(extension|alias|config) (?!list |get |search )"),
        Step("package.publish", words="(repo|release|gist) (create|fork)"),
        Step("git.remote", words="repo clone"),
        Step(
            words="[^ ]* (list|view|status|diff|checks|watch|download|clone|checkout|ls|show|trace|fork"
            "|create|comment|ready|lint|search|develop)|search|browse|status|help"
        ),
        Step("cloud.change", words="[^ ]* [^ ]* "),
    ),
)
"""Looking is everyday, what others see is asked after."""
_BUS = row(
    "s server creds nkey context user password timeout",
    first(
        Step(
            "guard.tamper",
            words="[^ ]* ([^ ]* )*?(purge|rm|del|delete|edit|restore|seal|rmm|kick|add|update|copy|shutdown"
            "|reset|unsubscribe|declare|recover|evict|step-down|stepdown)",
        ),
        Step("guard.tamper", words="server (?!check |ping |info |list )"),
        Step("network.send", words="pub|publish|request|req|bench|sub|reply"),
        Step(words="[^ ]* (ls|info|report|list|view|get|history|status|ping|check)|rtt|--version|--help|"),
        Step("guard.tamper"),
    ),
)
"""nats and other queues: the state of Mailroom depends on them."""
_MAILROOM = row(
    "",
    first(
        Step(
            words="|status|agents|show|tasks|tail|doctor|kpi|completion|memory search|policy check|audit show"
            "|approvals list"
        ),
        Step("guard.tamper"),
    ),
)
"""Mailroom's own command: agents may look, not decide or stop it."""
_FLEET = row("", first(Step(argument="--(syntax-check|list-(tasks|hosts|tags))"), Step("network.remote")))
"""ansible and its like work on other machines, unless they only read what they would do."""


PROGRAMS: dict[str, Handler] = {
    "docker podman nerdctl docker-compose podman-compose buildah": judge_container,
    "ctr crictl runc crun lxc lxd incus skopeo": always("container.escape"),
    "kubectl oc helm k3s k9s istioctl kustomize flux argocd linkerd kubeadm minikube kind k3d stern velero "
    "eksctl": _CLUSTER,
    "aws gcloud az bq doctl linode-cli ibmcloud oci aliyun heroku fly flyctl vercel netlify wrangler "
    "firebase supabase railway render cf eb sam serverless sls amplify hcloud scw exo openstack civo "
    "planetscale pscale databricks snowsql snow stripe twilio sentry-cli datadog newrelic okta shopify "
    "akamai fastly": _CLOUD,
    "terraform tofu terragrunt pulumi cdk cdktf crossplane packer "
    "nomad consul waypoint": judge_infrastructure,
    "ansible ansible-playbook salt salt-call puppet chef-client knife fab cap capistrano ansible-vault pssh "
    "pdsh clush dsh": _FLEET,
    "gh glab hub": _GH,
    "nats nats-server nsc nk rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh kafka-consumer-groups "
    "pulsar-admin": _BUS,
    "mailroom": _MAILROOM,
}

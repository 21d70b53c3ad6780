"""Clouds, queues and other services that people share."""

import re

from shared.policy.call import Call, Handler
from shared.policy.programs.containers import SHOWS, judge_cluster, judge_container
from shared.policy.words import Word

_DESTROYS = re.compile(
    r"^(delete|destroy|terminate|remove|purge|rb|rm|drop|erase|wipe|nuke|drain|evict|deprovision|truncate"
    r"|flush\w*|reset|kill|delete-.*|terminate-.*|remove-.*|purge-.*|destroy-.*|deregister-.*|.*:(destroy"
    r"|delete|remove|reset)|schedule-key-deletion|uninstall|decommission|cordon|prune|abandon|.*-delete)$"
)
_SECRETS = re.compile(
    r"secret|credential|password|token|access-key|get-parameter|kms|print-access|login|auth|session"
    r"|keys?$|sts|iam|config-view|--raw|--with-decryption",
    re.IGNORECASE,
)


_IDENTITIES = re.compile(
    r"list-(users|roles|policies|groups|attached-.*|instance-profiles|entities-.*)"
    r"|get-(user|role|policy|policy-version|group|role-policy|user-policy|account-summary)"
).fullmatch
"""What names accounts and what they may do, and gives nothing to log in with."""


def judge_cloud(call: Call) -> None:
    """Cloud command lines: showing is asked after only where it shows credentials."""
    found = call.options(
        "region profile output query endpoint-url project zone subscription g resource-group n name a "
        "app t team"
    )
    words = [word.text for word in found.operands]
    if words[:1] == ["configure"] and words[1:2] not in (["list"], ["list-profiles"]):
        call.find("secret.store")
    flat = " ".join([*words, *found.flags, *found.values])
    if any(_DESTROYS.match(word) for word in words):
        call.find("cloud.destroy")
    elif (
        any(_SECRETS.search(word) for word in words)
        and not (
            (words[:1] == ["iam"] and _IDENTITIES(words[1] if words[1:] else ""))
            or words[:2] == ["sts", "get-caller-identity"]
            or words[:2] == ["auth", "status"]
            or words[:2] == ["auth", "list"]
        )
    ) or "with-decryption" in flat:
        call.find("secret.store")
    elif words[:1] == ["s3"] and words[1:2] in (["cp"], ["sync"], ["mv"]):
        call.find("network.send")
        if found.has("delete"):
            call.find("cloud.destroy")
        for word in found.operands[2:]:
            call.read(word, deep=True)
    elif (
        (not words and found.flags - {"version", "help", "h", "v"})
        or found.has("prod")
        or (words and not any(SHOWS.match(word) for word in words))
    ):
        call.find("cloud.change")


def judge_infrastructure(call: Call) -> None:
    """terraform, pulumi: plans are everyday, changes are not."""
    texts = [word.text for word in call.args]
    words = [text for text in texts if not text.startswith("-")]
    action = words[0] if words else ""
    if (
        action == "destroy"
        or (action != "plan" and {"-destroy", "--destroy"} & set(texts))
        or (action == "state" and words[1:2] and words[1] not in {"list", "show"})
    ):
        call.find("cloud.destroy")
    elif (
        action
        in [
            "",
            *"fmt validate plan show graph providers version init get test help preview diff "
            "synth ls list about lint".split(),
        ]
        or (action == "state")
        or (action == "workspace" and words[1:2] in (["list"], ["show"], ["select"]))
    ):
        if any(text.startswith(("-from-module", "--from-module")) for text in texts):
            call.find("network.fetch")
        for text in texts:
            if text.startswith("-out="):
                call.write(Word(text.partition("=")[2]))
    elif action == "output":
        call.find("secret.environment")
    elif action in {"workspace", "force-unlock", "taint", "untaint", "rm"}:
        call.find("cloud.destroy" if action == "workspace" and "delete" in words else "cloud.change")
    else:
        call.find("cloud.change")


_FLEET_LOOKS = {"--syntax-check", "--list-tasks", "--list-hosts", "--list-tags"}


def judge_fleet(call: Call) -> None:
    """ansible and its like work on other machines, but where they only read what they would do."""
    if not _FLEET_LOOKS & {word.text for word in call.args}:
        call.find("network.remote")


def judge_gh(call: Call) -> None:
    """gh, glab, hub: looking is everyday, what others see is asked after."""
    found = call.options(
        "R repo q jq t template L limit s state json b body title F body-file H head B base a assignee l "
        "label X method f raw-field field input"
    )
    words = [word.text for word in found.operands]
    for word in found.of("F body-file input") if words[:1] != ["api"] else ():
        call.read(word)
    pair = words[:2]
    if (words[:1] == ["auth"] and pair[1:] != ["status"]) or words[:1] in (
        ["secret"],
        ["variable"],
        ["ssh-key"],
        ["gpg-key"],
        ["codespace"],
    ):
        call.find("secret.store")
    elif len(pair) > 1 and pair[1] in {"delete", "archive"}:
        call.find("cloud.destroy")
    elif words[:1] == ["gist"] and pair[1:] in (["create"], ["edit"]):
        call.find("network.send")
        for word in found.operands[2:]:
            call.read(word)
    elif words[:1] == ["api"]:
        if found.has("X method f F field raw-field input"):
            call.find("cloud.change")
    elif words[:1] in (["extension"], ["alias"], ["config"]) and pair[1:] not in (
        ["list"],
        ["get"],
        ["search"],
    ):
        call.find("package.install")
    elif (
        len(pair) > 1
        and pair[1]
        not in "list view status diff checks watch download clone checkout ls show trace fork "
        "create comment ready lint search develop".split()
        and words[0] not in {"search", "browse", "status", "help"}
    ):
        call.find("cloud.change")
    elif pair[1:] in (["create"], ["fork"]) and words[0] in {"repo", "release", "gist"}:
        call.find("package.publish")
    elif pair == ["repo", "clone"]:
        call.find("git.remote")


def judge_bus(call: Call) -> None:
    """nats and other queues: the office's own state hangs on them."""
    found = call.options("s server creds nkey context user password timeout")
    words = [word.text for word in found.operands]
    if any(
        re.match(
            r"(purge|rm|del|delete|edit|restore|seal|rmm|kick|add|update|copy|shutdown|reset|unsubscribe"
            r"|declare|recover|evict|step-down|stepdown)$",
            word,
        )
        for word in words[1:]
    ) or (words[:1] == ["server"] and words[1:2] not in (["check"], ["ping"], ["info"], ["list"])):
        call.find("guard.tamper")
    elif words[:1] in (["pub"], ["publish"], ["request"], ["req"], ["bench"], ["sub"], ["reply"]):
        call.find("network.send")
    elif not (
        len(words) > 1 and words[1] in "ls info report list view get history status ping check".split()
    ) and words[:1] not in (["rtt"], ["--version"], ["--help"], []):
        call.find("guard.tamper")


def judge_office(call: Call) -> None:
    """The office's own command: agents may look, not decide or stop it."""
    words = [word.text for word in call.options().operands]
    if (
        words[:1]
        and words[0] not in {"status", "agents", "show", "tasks", "tail", "doctor", "kpi", "completion"}
        and words[:2]
        not in (["memory", "search"], ["policy", "check"], ["audit", "show"], ["approvals", "list"])
    ):
        call.find("guard.tamper")


PROGRAMS: dict[str, Handler] = {
    **dict.fromkeys("docker podman nerdctl docker-compose podman-compose buildah".split(), judge_container),
    **dict.fromkeys(
        "ctr crictl runc crun lxc lxd incus skopeo".split(), lambda call: call.find("container.escape")
    ),
    **dict.fromkeys(
        "kubectl oc helm k3s k9s istioctl kustomize flux argocd linkerd kubeadm minikube kind k3d stern "
        "velero eksctl".split(),
        judge_cluster,
    ),
    **dict.fromkeys(
        "aws gcloud az bq doctl linode-cli ibmcloud oci aliyun heroku fly flyctl vercel netlify wrangler "
        "firebase supabase railway render cf eb sam serverless sls amplify hcloud scw exo openstack civo "
        "planetscale pscale databricks snowsql snow stripe twilio sentry-cli datadog newrelic okta "
        "shopify akamai fastly".split(),
        judge_cloud,
    ),
    **dict.fromkeys(
        "terraform tofu terragrunt pulumi cdk cdktf crossplane packer nomad consul waypoint".split(),
        judge_infrastructure,
    ),
    **dict.fromkeys(
        "ansible ansible-playbook salt salt-call puppet chef-client knife fab cap capistrano "
        "ansible-vault pssh pdsh clush dsh".split(),
        judge_fleet,
    ),
    **dict.fromkeys("gh glab hub".split(), judge_gh),
    **dict.fromkeys(
        "nats nats-server nsc nk rabbitmqctl rabbitmqadmin kafka-topics kafka-topics.sh "
        "kafka-consumer-groups pulsar-admin".split(),
        judge_bus,
    ),
    "mailroom": judge_office,
}

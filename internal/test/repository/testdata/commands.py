"""Checks commands of the AWS CLI and the SAM CLI and prints the errors as a JSON list.

Usage: commands.py < ["aws dynamodb delete-table --table-name …", ...], with the
Python of the SAM CLI. Commands of the AWS CLI are compared with botocore's models,
from which the CLI generates them. Commands of the SAM CLI are compared with its own
definitions.
"""

import importlib
import json
import shlex
import sys

import botocore.session
from botocore import xform_name

GLOBAL = {"region", "query", "output", "profile", "max-items"}
SERVICES = {"deploy": "codedeploy"}  # names in the CLI that differ from those in botocore
CUSTOM = {  # CLI commands without a botocore model
    "s3": {"rb": {"force"}},
    "cloudformation": {"deploy": {"stack-name", "template-file", "parameter-overrides"}},
}

session = botocore.session.get_session()


def options(words):
    return {w[2:].split("=")[0] for w in words if w.startswith("--")}


def aws(words):
    service, operation, *rest = words[1:]
    if operation in CUSTOM.get(service, {}):
        return options(rest) - CUSTOM[service][operation] - GLOBAL
    service = SERVICES.get(service, service)
    model = session.get_service_model(service)
    if operation == "wait":
        waiter = session.get_waiter_model(service).get_waiter(
            next(w for w in session.get_waiter_model(service).waiter_names if xform_name(w, "-") == rest[0])
        )
        name = waiter.operation
    else:
        name = next(n for n in model.operation_names if xform_name(n, "-") == operation)
    shape = model.operation_model(name).input_shape
    known = {xform_name(m, "-") for m in shape.members} if shape else set()
    given = {o.removeprefix("no-") if o.removeprefix("no-") in known else o for o in options(rest)}
    required = {xform_name(m, "-") for m in shape.required_members} if shape else set()
    return (given - known - GLOBAL) | {f"{r} (required)" for r in required - given}


def sam(words):
    cli = importlib.import_module(f"samcli.commands.{words[1]}.command").cli
    known = {o.lstrip("-") for p in cli.params for o in p.opts + p.secondary_opts}
    return options(words[2:]) - known


problems = []
for command in json.load(sys.stdin):
    words = shlex.split(command)
    try:
        if wrong := {"aws": aws, "sam": sam}[words[0]](words):
            problems.append(f"{command}: {sorted(wrong)}")
    except Exception as e:
        problems.append(f"{command}: there is no such command ({e!r})")
json.dump(problems, sys.stdout)

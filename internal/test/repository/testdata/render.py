"""Renders template.yaml for environments of samconfig.toml and prints JSON.

Usage: render.py ENVIRONMENT[@EDITION][,PARAMETER=VALUE]..., in the directory of both
files, with the Python of the SAM CLI. An edition is a changed template.yaml; the standard
input is JSON with the text of each. The output for each argument has its parameters and
tags. It also has the template that the SAM translator renders with these parameters, in
two forms: as sent to CloudFormation ("rendered"), and with parameters and conditions
resolved ("resolved"). If rules of the template refuse the parameters, the output has only
the reasons ("refused").
"""

import copy
import functools
import json
import logging
import os
import re
import sys

import tomlkit
import yaml

yaml.SafeLoader = yaml.CSafeLoader  # the parser written in C is faster

from samcli.yamlhelper import yaml_parse
from samtranslator.translator.transform import transform

logging.disable(logging.CRITICAL)
os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")

ABSENT = object()
PSEUDO = {"AWS::Region": "us-east-1", "AWS::Partition": "aws", "AWS::AccountId": "123456789012", "AWS::URLSuffix": "amazonaws.com"}


class ManagedPolicies:
    """The names of managed policies. The template refers to no managed policy by name."""

    def load(self):
        return {}


def resolve(node, values, conditions):
    """Returns node with parameters and conditions resolved. For AWS::NoValue, returns ABSENT."""
    if isinstance(node, list):
        resolved = [resolve(n, values, conditions) for n in node]
        return [n for n in resolved if n is not ABSENT]
    if not isinstance(node, dict):
        return node
    if len(node) == 1:
        (name, argument), = node.items()
        if name == "Ref":
            if argument == "AWS::NoValue":
                return ABSENT
            return copy.deepcopy(values.get(argument, node))
        if name == "Condition" and isinstance(argument, str):
            return decide(conditions[argument], values, conditions)
        if name == "Fn::If":
            condition, then, otherwise = argument
            return resolve(then if decide(conditions[condition], values, conditions) else otherwise, values, conditions)
        if name == "Fn::Sub" and isinstance(argument, list):
            text, names = argument
            return resolve({name: text}, values | resolve(names, values, conditions), conditions)
        if name == "Fn::Sub":
            texts = {k: v.get("Fn::Sub", v) if isinstance(v, dict) else v for k, v in values.items()}
            text = re.sub(r"\$\{([^}!]+)\}", lambda m: str(texts.get(m[1], m[0])), argument)
            return {name: text} if "${" in text else text
        if name == "Fn::Join":
            separator, parts = resolve(argument, values, conditions)
            if isinstance(parts, list) and all(isinstance(p, str) for p in parts):
                return separator.join(parts)
            return {name: [separator, parts]}
    resolved = {k: resolve(v, values, conditions) for k, v in node.items()}
    return {k: v for k, v in resolved.items() if v is not ABSENT}


def decide(node, values, conditions):
    (name, argument), = node.items()
    if name == "Fn::Not":
        return not decide(argument[0], values, conditions)
    if name == "Fn::And":
        return all(decide(a, values, conditions) for a in argument)
    if name == "Fn::Or":
        return any(decide(a, values, conditions) for a in argument)
    if name == "Condition":
        return decide(conditions[argument], values, conditions)
    if name == "Fn::Equals":
        left, right = resolve(argument, values, conditions)
        return str(left) == str(right)
    if name == "Fn::Contains":
        options, value = resolve(argument, values, conditions)
        return str(value) in map(str, options)
    raise ValueError(f"the condition {name} is not understood")


def refusals(rules, values):
    """Returns the descriptions of the assertions that CloudFormation would refuse."""
    return [
        a["AssertDescription"]
        for rule in rules.values()
        if "RuleCondition" not in rule or decide(rule["RuleCondition"], values, {})
        for a in rule["Assertions"]
        if not decide(a["Assert"], values, {})
    ]


# The parameters whose values the SAM translator puts into its output.
READ_BY_SAM = ["CorsOrigins", "DeploymentPreference", "Tracing"]


@functools.cache
def parse(text):
    template = yaml_parse(text)
    if template["Globals"]["Function"]["CodeUri"] == ".":
        template["Globals"]["Function"]["CodeUri"] = "s3://bucket/key"  # as "sam package" would
    return template


@functools.cache
def translate(text, read):
    """Returns the output of the SAM translator, which takes half a second."""
    template = copy.deepcopy(parse(text))
    unread = {name: f"unread-{name}" for name in template["Parameters"]}
    rendered = transform(template, {"AWS::Region": PSEUDO["AWS::Region"], "AWS::Partition": "aws", **unread, **dict(read)}, ManagedPolicies())
    if found := re.search(r'"unread-(\w+)', json.dumps(rendered)):
        raise ValueError(f"SAM reads {found[1]}, which READ_BY_SAM lacks")
    return rendered


def render(text, config, more):
    template = parse(text)
    overrides = dict(p.split("=", 1) for p in config["deploy"]["parameters"].get("parameter_overrides", []) + more)
    unknown = set(overrides) - set(template["Parameters"])
    if unknown:
        raise ValueError(f"samconfig.toml sets parameters that template.yaml does not have: {unknown}")
    values = dict(PSEUDO, **{"AWS::StackName": config["global"]["parameters"]["stack_name"]})
    for name, parameter in template["Parameters"].items():
        value = overrides.get(name, str(parameter["Default"]))
        if "AllowedValues" in parameter and value not in map(str, parameter["AllowedValues"]):
            raise ValueError(f"samconfig.toml: {name}={value} is not allowed")
        values[name] = value.split(",") if parameter["Type"] == "CommaDelimitedList" else value
    refused = refusals(template["Rules"], values)
    if refused:
        return {"refused": refused}
    rendered = translate(text, tuple((name, overrides.get(name, str(template["Parameters"][name]["Default"]))) for name in READ_BY_SAM))
    conditions = rendered.get("Conditions", {})
    resolved = {
        name: resolve(resource, values, conditions)
        for name, resource in rendered["Resources"].items()
        if "Condition" not in resource or decide(conditions[resource["Condition"]], values, conditions)
    }
    return {
        "stack": values["AWS::StackName"],
        "parameters": overrides,
        "tags": config["deploy"]["parameters"].get("tags", []),
        "rendered": rendered,
        "resolved": {"Resources": resolved},
    }


def main():
    with open("template.yaml") as f:
        editions = json.loads(sys.stdin.read() or "{}") | {"": f.read()}
    with open("samconfig.toml") as f:
        config = tomlkit.load(f).unwrap()
    rendered = {}
    for argument in sys.argv[1:]:
        name, *more = re.split(r",(?=\w+=)", argument)
        environment, _, edition = name.partition("@")
        rendered[argument] = render(editions[edition], config[environment], more)
    json.dump(rendered, sys.stdout, default=str)


main()

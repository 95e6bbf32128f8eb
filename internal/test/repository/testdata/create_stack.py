"""Creates a stack of a rendered template in moto's CloudFormation and prints
the created resources as JSON.

Usage: create_stack.py < {"stack": NAME, "template": {...}, "parameters": {...}}
"""

import ast
import io
import json
import re
import sys
import zipfile

import boto3
from moto import mock_aws
from moto.cloudformation import parsing


# Resource types that moto creates incompletely: its SSM parameter has no attribute Value.
HALF = {"AWS::SSM::Parameter"}


def adapt(template):
    """Removes the resources that moto cannot create and the references to them. Returns
    the remaining template and the types of the removed resources."""
    resources = template["Resources"]
    unmade = {name for name, r in resources.items() if r["Type"] not in parsing.get_model_map() or r["Type"] in HALF}
    types = sorted({resources[name]["Type"] for name in unmade})
    # Replace references to the ARN of an alias with references to its function.
    stand_ins = {
        name: {"Fn::GetAtt": [resources[name]["Properties"]["FunctionName"]["Ref"], "Arn"]}
        for name in unmade
        if resources[name]["Type"] == "AWS::Lambda::Alias"
    }
    for name in unmade:
        del resources[name]
    def cut(node):
        if isinstance(node, list):
            return [cut(n) for n in node]
        if not isinstance(node, dict):
            return node
        if node.get("Ref") in unmade:
            return stand_ins.get(node["Ref"], node["Ref"])
        if "Fn::GetAtt" in node and node["Fn::GetAtt"][0] in unmade:
            return ".".join(node["Fn::GetAtt"])
        if "Fn::Sub" in node:
            text, *names = node["Fn::Sub"] if isinstance(node["Fn::Sub"], list) else [node["Fn::Sub"]]
            text = re.sub(r"\$\{(\w+)(\.\w+)?\}", lambda m: m[0][2:-1] if m[1] in unmade else m[0], text)
            return {"Fn::Sub": [text, cut(names[0])] if names else text}
        return {k: cut(v) for k, v in node.items()}

    return cut(template), types


def main():
    given = json.load(sys.stdin)
    template, unsupported = adapt(given["template"])
    with mock_aws():
        client = lambda service: boto3.client(service, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")
        # The location of the functions' code.
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as z:
            z.writestr("bootstrap", "")
        client("s3").create_bucket(Bucket="bucket")
        client("s3").put_object(Bucket="bucket", Key="key", Body=code.getvalue())

        cloudformation = client("cloudformation")
        cloudformation.create_stack(
            StackName=given["stack"],
            TemplateBody=json.dumps(template),
            Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in given["parameters"].items()],
            Capabilities=["CAPABILITY_IAM"],
        )
        stack = cloudformation.describe_stacks(StackName=given["stack"])["Stacks"][0]
        made = [
            r
            for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=given["stack"])
            for r in page["StackResourceSummaries"]
        ]
        physical = {r["LogicalResourceId"]: r.get("PhysicalResourceId") for r in made}
        types = {r["LogicalResourceId"]: r["ResourceType"] for r in made}
        of = lambda typ: {k: v for k, v in physical.items() if types[k] == typ}

        dynamodb, iam, functions = client("dynamodb"), client("iam"), client("lambda")
        tables = {}
        for logical, name in of("AWS::DynamoDB::Table").items():
            tables[logical] = dict(
                dynamodb.describe_table(TableName=name)["Table"],
                TimeToLive=dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"],
                Backups=dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"],
            )
        roles = {}
        for logical, name in of("AWS::IAM::Role").items():
            inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
            documents = [iam.get_role_policy(RoleName=name, PolicyName=p)["PolicyDocument"] for p in inline]
            # moto does not attach managed policies to roles.
            for attached in template["Resources"][logical]["Properties"].get("ManagedPolicyArns", []):
                if isinstance(attached, dict) and attached.get("Ref") in physical:
                    arn = physical[attached["Ref"]]
                    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
                    documents.append(iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"])
            # moto stores the Python text of these values instead of JSON.
            roles[logical] = [ast.literal_eval(d) if isinstance(d, str) else d for d in documents]
        configurations = {
            logical: functions.get_function_configuration(FunctionName=name)
            for logical, name in of("AWS::Lambda::Function").items()
        }
        json.dump(
            {
                "status": stack["StackStatus"],
                "outputs": {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])},
                "types": types,
                "physical": physical,
                "unsupported": unsupported,
                "tables": tables,
                "roles": roles,
                "functions": configurations,
            },
            sys.stdout,
            default=str,
        )


main()

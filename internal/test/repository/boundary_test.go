package repository_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/test/templatetest"
)

const (
	account     = "arn:aws:iam::123456789012:"
	boundary    = account + "policy/sluice-prod-boundary"
	ownRole     = account + "role/sluice-prod-ListEntityFunctionRole-ABC"
	ownPolicy   = account + "policy/sluice-prod-KeysPolicy-ABC"
	administers = "arn:aws:iam::aws:policy/AdministratorAccess"
)

// otherRoles are roles that the pipeline must not change: the pipeline's own roles, and those
// of other stacks.
var otherRoles = []string{
	account + "role/sluice-prod-deploy", account + "role/sluice-prod-cloudformation",
	account + "role/Administrator", account + "role/other-prod-FunctionRole-ABC",
}

// bounded returns the condition keys of a call on a role that has a permissions boundary.
func bounded(by string, policies ...string) map[string][]string {
	return map[string][]string{"iam:PermissionsBoundary": {by}, "iam:PolicyARN": policies}
}

// escapes returns the calls by which an identity with policy p could get permissions beyond the
// boundary: granting them to a role without the boundary, removing the boundary from a role, or
// changing the boundary.
func escapes(t *testing.T, p policy) (found []string) {
	t.Helper()
	var calls []call
	for _, action := range []string{"CreateRole", "PutRolePolicy", "AttachRolePolicy", "DetachRolePolicy", "DeleteRolePolicy"} {
		for _, by := range []string{"", account + "policy/sluice-prod-boundary-2", administers} {
			keys := bounded(by, ownPolicy)
			if by == "" {
				delete(keys, "iam:PermissionsBoundary")
			}
			calls = append(calls, call{"iam:" + action, ownRole, keys})
		}
		for _, role := range otherRoles {
			calls = append(calls, call{"iam:" + action, role, bounded(boundary, ownPolicy)})
		}
	}
	for _, role := range append(otherRoles, ownRole) {
		for _, by := range []string{boundary, administers} {
			calls = append(calls, call{"iam:PutRolePermissionsBoundary", role, bounded(by)}, call{"iam:DeleteRolePermissionsBoundary", role, bounded(by)})
		}
		for _, service := range []string{"ec2.amazonaws.com", "cloudformation.amazonaws.com"} {
			calls = append(calls, call{"iam:PassRole", role, map[string][]string{"iam:PassedToService": {service}}})
		}
	}
	for _, role := range otherRoles {
		calls = append(calls, call{"iam:UpdateAssumeRolePolicy", role, nil}, call{"iam:PassRole", role, map[string][]string{"iam:PassedToService": {"lambda.amazonaws.com"}}})
	}
	for _, action := range []string{"CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicyVersion", "DeletePolicy", "CreatePolicy"} {
		calls = append(calls, call{"iam:" + action, boundary, nil})
	}
	calls = append(calls,
		call{"iam:AttachRolePolicy", ownRole, bounded(boundary, administers)},
		call{"iam:CreateUser", account + "user/sluice-prod-user", bounded(boundary)},
		call{"iam:CreateAccessKey", account + "user/somebody", nil},
		call{"sts:AssumeRole", ownRole, nil}, call{"sts:AssumeRole", account + "role/Administrator", nil},
	)
	for _, c := range calls {
		if p.allows(t, c) {
			found = append(found, fmt.Sprintf("%s on %s with %v", c.action, c.resource, c.keys))
		}
	}
	return found
}

// The test also weakens the policy in several ways, and checks that each change is noticed.
func TestThePipelineCannotExceedTheBoundary(t *testing.T) {
	t.Parallel()
	role := filled(t, "cloudformation-role.json")
	passes := call{"iam:PassRole", account + "role/sluice-prod-cloudformation", map[string][]string{"iam:PassedToService": {"cloudformation.amazonaws.com"}}}
	for _, way := range escapes(t, role) {
		t.Errorf("the CloudFormation role may call %s", way)
	}
	for _, way := range escapes(t, filled(t, "deploy-role.json")) {
		if way != fmt.Sprintf("%s on %s with %v", passes.action, passes.resource, passes.keys) { // allowed, because only CloudFormation can use that role
			t.Errorf("the deploy role may call %s", way)
		}
	}
	without := func(operator string) policy {
		p := filled(t, "cloudformation-role.json")
		for _, s := range p.Statement {
			if strings.Contains(s.Sid, "WithTheBoundary") {
				delete(s.Condition, operator)
			}
		}
		return p
	}
	with := func(action, resource string) policy {
		p := filled(t, "cloudformation-role.json")
		p.Statement = append(p.Statement, statement{Effect: "Allow", Action: action, Resource: resource})
		return p
	}
	for name, p := range map[string]policy{
		"PutRolePolicy without the boundary":          without("StringEquals"),
		"policies of any name":                        without("ArnLike"),
		"a role that may detach the boundary":         with("iam:DeleteRolePermissionsBoundary", ownRole),
		"a role that may exchange the boundary":       with("iam:PutRolePermissionsBoundary", "*"),
		"a role that may change the boundary":         with("iam:CreatePolicyVersion", account+"policy/sluice-prod-*"),
		"a role that may change itself":               with("iam:PutRolePolicy", account+"role/sluice-prod-*"),
		"a role that others may be allowed to assume": with("iam:UpdateAssumeRolePolicy", account+"role/*"),
	} {
		if len(escapes(t, p)) == 0 {
			t.Errorf("%s is not noticed", name)
		}
	}
}

func TestThePipelineChangesOnlyItsStack(t *testing.T) {
	t.Parallel()
	const here = ":us-east-1:123456789012:"
	functionArn := func(name string) map[string][]string {
		return map[string][]string{"lambda:FunctionArn": {"arn:aws:lambda" + here + "function:" + name}}
	}
	owner := func(account string) map[string][]string { return map[string][]string{"aws:ResourceAccount": {account}} }
	records := func(names ...string) map[string][]string {
		return map[string][]string{"route53:ChangeResourceRecordSetsNormalizedRecordNames": names}
	}
	const artifacts = "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-x/"
	policies := make(map[string]policy)
	for _, name := range []string{"cloudformation-role.json", "deploy-role.json", "boundary.json"} {
		policies[name] = filled(t, name)
	}
	for _, tt := range []struct {
		file    string
		allowed bool
		call    call
	}{
		{"cloudformation-role.json", true, call{"iam:PutRolePolicy", ownRole, bounded(boundary)}},
		{"cloudformation-role.json", true, call{"iam:CreateRole", ownRole, bounded(boundary)}},
		{"cloudformation-role.json", true, call{"iam:CreatePolicyVersion", ownPolicy, nil}},
		{"cloudformation-role.json", true, call{"iam:PassRole", ownRole, map[string][]string{"iam:PassedToService": {"lambda.amazonaws.com"}}}},
		{"cloudformation-role.json", true, call{"lambda:CreateEventSourceMapping", "*", functionArn("sluice-prod-ExportWorkerFunction-ABC")}},
		{"cloudformation-role.json", false, call{"lambda:CreateEventSourceMapping", "*", functionArn("other-prod-Function-ABC")}},
		{"cloudformation-role.json", false, call{"lambda:UpdateFunctionCode", "arn:aws:lambda" + here + "function:other", nil}},
		{"cloudformation-role.json", true, call{"dynamodb:UpdateTable", "arn:aws:dynamodb" + here + "table/sluice-prod-EntitiesTable-ABC", nil}},
		{"cloudformation-role.json", false, call{"dynamodb:DeleteTable", "arn:aws:dynamodb" + here + "table/other-prod-Table-ABC", nil}},
		{"cloudformation-role.json", true, call{"apigateway:PATCH", "arn:aws:apigateway:us-east-1::/apis/a1b2c3/routes/r", nil}},
		{"cloudformation-role.json", false, call{"apigateway:DELETE", "arn:aws:apigateway:us-east-1::/apis/another", nil}},
		{"cloudformation-role.json", true, call{"route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z1", records("api.example.com")}},
		{"cloudformation-role.json", false, call{"route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z1", records("api.example.com", "www.example.com")}},
		{"cloudformation-role.json", false, call{"route53:ChangeResourceRecordSets", "arn:aws:route53:::hostedzone/Z2", records("api.example.com")}},
		{"cloudformation-role.json", true, call{"cloudfront:UpdateDistribution", "arn:aws:cloudfront::123456789012:distribution/E1", nil}},
		{"cloudformation-role.json", false, call{"cloudfront:UpdateDistribution", "arn:aws:cloudfront::123456789012:distribution/E2", nil}},
		{"cloudformation-role.json", false, call{"acm:DeleteCertificate", "arn:aws:acm" + here + "certificate/c-1", nil}},
		{"cloudformation-role.json", false, call{"ssm:PutParameter", "arn:aws:ssm" + here + "parameter/other", nil}},
		{"cloudformation-role.json", true, call{"s3:GetObject", artifacts + "sluice-prod/1", owner("123456789012")}},
		{"deploy-role.json", true, call{"s3:PutObject", artifacts + "sluice-prod/1", owner("123456789012")}},
		{"deploy-role.json", false, call{"s3:PutObject", artifacts + "other-prod/1", owner("123456789012")}},
		{"deploy-role.json", false, call{"s3:PutObject", artifacts + "sluice-prod/1", owner("999999999999")}},
		{"deploy-role.json", false, call{"cloudformation:CreateChangeSet", "arn:aws:cloudformation" + here + "stack/other-prod/1", nil}},
		{"boundary.json", false, call{"dynamodb:Scan", "arn:aws:dynamodb" + here + "table/other-prod-Table-ABC", nil}},
		{"boundary.json", false, call{"dynamodb:DeleteTable", "arn:aws:dynamodb" + here + "table/sluice-prod-EntitiesTable-ABC", nil}},
		{"boundary.json", false, call{"s3:PutObject", "arn:aws:s3:::sluice-prod-of-somebody-else/x", owner("999999999999")}},
		{"boundary.json", false, call{"iam:PassRole", ownRole, map[string][]string{"iam:PassedToService": {"lambda.amazonaws.com"}}}},
		{"boundary.json", false, call{"lambda:InvokeFunction", "arn:aws:lambda" + here + "function:sluice-prod-ListEntityFunction-ABC", nil}},
	} {
		if got := policies[tt.file].allows(t, tt.call); got != tt.allowed {
			t.Errorf("%s allows %s on %s with %v: %t", tt.file, tt.call.action, tt.call.resource, tt.call.keys, got)
		}
	}
}

func TestTheBoundaryAllowsWhatTheFunctionsNeed(t *testing.T) {
	t.Parallel()
	arns := map[string]string{"dynamodb": "arn:aws:dynamodb:us-east-1:123456789012:table/sluice-prod-", "s3": "arn:aws:s3:::sluice-prod-", "sqs": "arn:aws:sqs:us-east-1:123456789012:sluice-prod-"}
	keys := map[string][]string{"aws:ResourceAccount": {"123456789012"}}
	p := filled(t, "boundary.json")
	for _, f := range templatetest.Functions(t) {
		for _, g := range f.Grants {
			service, _, _ := strings.Cut(g.Action, ":")
			if arn := arns[service] + strings.Replace(g.Resource, ".StreamArn", "/stream/2026", 1); arns[service] == "" || !p.allows(t, call{g.Action, arn, keys}) {
				t.Errorf("%s needs %s on %s, which the boundary does not allow", f.Name, g.Action, g.Resource)
			}
		}
	}
	for action, resource := range map[string]string{
		"logs:PutLogEvents":         "arn:aws:logs:us-east-1:123456789012:log-group:sluice-prod-FunctionLogs-ABC:log-stream:s",
		"xray:PutTraceSegments":     "*",
		"lambda:UpdateAlias":        "arn:aws:lambda:us-east-1:123456789012:function:sluice-prod-ListEntityFunction-ABC:live",
		"cloudwatch:DescribeAlarms": "*",
	} {
		if !p.allows(t, call{action, resource, nil}) {
			t.Errorf("the boundary does not allow %s", action)
		}
	}
}

func TestEveryRoleHasTheBoundary(t *testing.T) {
	t.Parallel()
	with, without := render(t, everything)[everything], render(t)["prod"].Resolved.Resources
	for id, r := range with.ofType("AWS::IAM::Role") {
		if got, off := r.Properties["PermissionsBoundary"], without[id].Properties["PermissionsBoundary"]; got != boundary || off != nil {
			t.Errorf("%s has the boundary %v, and by default %v", id, got, off)
		}
	}
}

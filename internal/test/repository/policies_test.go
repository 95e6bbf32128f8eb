package repository_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// everything is the argument of render for a stack with all optional resources.
const everything = "prod,DomainName=api.example.com,HostedZoneId=Z1,AlarmEmail=ops@example.com,Tracing=Active," +
	"CloudFrontCertificateArn=arn:aws:acm:us-east-1:123456789012:certificate/1,OriginSecret=the-first-secret,Alarms=all,MonthlyBudget=100,AdminRoutes=on,PermissionsBoundaryArn=" + boundary

// unused lists permissions that CloudFormation's resource handlers need only for properties
// that this template does not set.
var unused = []string{
	"acm-pca:*", "firehose:*", "kinesis:*", "s3files:*", "s3tables:*", "ec2:*", "elasticfilesystem:*", // other services
	"cloudfront:*ConnectionGroup", "cloudfront:GetVpcOrigin", "codedeploy:RegisterOnPremisesInstance", "lambda:PassCapacityProvider",
	"dynamodb:*Replica", "iam:CreateServiceLinkedRole", // global tables
	"dynamodb:*Item", "dynamodb:Query", "dynamodb:Scan", "dynamodb:*ResourcePolicy", // for replicas and resource policies; the role must not access records
	"dynamodb:DescribeImport", "dynamodb:ImportTable", "logs:*LogStream*", "logs:PutLogEvents", "s3:GetObjectMetadata", // imports from S3
	"dynamodb:*KinesisStreamingDestination", "dynamodb:UpdateContributorInsights", "kms:ListAliases",
	"billing:GetBillingViewData", "iam:*GroupPolicy", "iam:*UserPolicy", "sns:PutDataProtectionPolicy",
	"logs:*DataProtectionPolicy", "logs:*IndexPolicy", "logs:DeleteResourcePolicy", "logs:PutBearerTokenAuthentication", "logs:PutLogGroupDeletionProtection", "s3:REST.PUT.OBJECT",
	"s3:*Metadata*Configuration", "s3:DeleteBucketAnalyticsConfiguration", "s3:DeleteBucketMetricsConfiguration", "s3:DeleteBucketCors",
	"s3:DeleteBucketEncryption", "s3:DeleteBucketLifecycle", "s3:DeleteBucketReplication", "s3:DeleteBucketWebsite", "s3:DeleteObject", "s3:PutObject*",
	"s3:PutAccelerateConfiguration", "s3:PutAnalyticsConfiguration", "s3:PutIntelligentTieringConfiguration", "s3:PutInventoryConfiguration",
	"s3:PutMetricsConfiguration", "s3:PutReplicationConfiguration",
}

// byAdministrators lists the actions that are left to administrators: those that replace
// boundaries, and those that create or delete the resources that the pipeline's policies name by
// id (docs/pipeline.md).
var byAdministrators = []string{
	"iam:*RolePermissionsBoundary", "acm:DeleteCertificate", "acm:RequestCertificate",
	"cloudfront:CreateDistribution*", "cloudfront:DeleteDistribution", "cloudfront:CreateOriginRequestPolicy", "cloudfront:DeleteOriginRequestPolicy",
}

// The role must allow what cfn-lint's schemas require for the stack's resource types, except the
// actions in unused and byAdministrators. It must also allow attaching the managed policies.
func TestTheCloudFormationRoleAllowsTheStack(t *testing.T) {
	t.Parallel()
	resources := render(t, everything)[everything].Resolved.Resources
	role := readPolicy(t, "cloudformation-role.json")
	allowed, checked, inStack := role.actions(), 0, filled(t, "cloudformation-role.json")
	for typ, schema := range schemas(t) {
		for _, p := range schema.Permissions {
			checked++
			if !matches(allowed, p) && !matches(unused, p) && !matches(byAdministrators, p) {
				t.Errorf("%s needs %s", typ, p)
			}
			if matches(allowed, p) && matches(byAdministrators, p) {
				t.Errorf("the role may %s", p)
			}
		}
	}
	if checked < 300 {
		t.Errorf("only %d permissions were found, so this test reads the wrong thing", checked)
	}
	for id, r := range resources {
		if r.Type != "AWS::IAM::Role" {
			continue
		}
		for _, arn := range oneOrMore(r.Properties["ManagedPolicyArns"]) {
			if managed, ok := valueAt(arn, "Ref").(string); ok {
				arn = "arn:aws:iam::123456789012:policy/sluice-prod-" + managed + "-ABC" // as named by CloudFormation
			}
			attach := call{"iam:AttachRolePolicy", "arn:aws:iam::123456789012:role/sluice-prod-" + id + "-ABC", map[string][]string{
				"iam:PermissionsBoundary": {"arn:aws:iam::123456789012:policy/sluice-prod-boundary"}, "iam:PolicyARN": {fmt.Sprint(arn)},
			}}
			if !inStack.allows(t, attach) {
				t.Errorf("%s has %s, which the role may not attach", id, arn)
			}
		}
	}
}

// No policy in docs/policies exceeds the IAM quota for its kind. Only the boundary allows
// reading or writing records. Only the key policy allows all actions of a service: it grants
// account administrators all actions of KMS.
func TestPoliciesAreNarrow(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("docs/policies/*.json")
	paths = slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "waf-rules.json" })
	if err != nil || len(paths) != 6 {
		t.Fatalf("policies %v, %v", paths, err)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		p := readPolicy(t, name)
		size := len(strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, read(t, path)))
		quota := 10_240 // characters in the inline policies of a role, not counting white space
		if name == "boundary.json" {
			quota = 6_144 // characters in a managed policy, not counting white space
		}
		if p.Version != "2012-10-17" || size > quota {
			t.Errorf("%s: version %q, %d characters", name, p.Version, size)
		}
		for _, action := range p.actions() {
			if strings.HasSuffix(action, ":*") && (name != "kms-key.json" || action != "kms:*") {
				t.Errorf("%s allows %s", name, action)
			}
		}
		if name == "boundary.json" {
			continue
		}
		for _, action := range []string{"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Scan", "lambda:InvokeFunction", "sqs:SendMessage", "iam:CreateUser"} {
			if matches(p.actions(), action) {
				t.Errorf("%s allows %s", name, action)
			}
		}
	}
}

// Each service may use the key for its resources in this stack, and CloudWatch may use it to
// publish to the encrypted topic.
func TestTheKeyPolicyAllowsTheServicesThatUseTheKey(t *testing.T) {
	t.Parallel()
	const key = "arn:aws:kms:us-east-1:123456789012:key/1"
	p := readPolicy(t, "kms-key.json")
	names := []string{"prod", "prod,KmsKeyArn=" + key}
	all := render(t, names...)
	used := make(map[string]string) // type → logical id of a resource of this type that uses the KMS key
	for id, r := range all[names[1]].Resolved.Resources {
		b, err := json.Marshal(r.Properties)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), key) {
			used[r.Type] = id
		} else if slices.Contains([]string{"AWS::DynamoDB::Table", "AWS::Lambda::Function", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::SNS::Topic", "AWS::SQS::Queue"}, r.Type) && id != "CountersTable" {
			t.Errorf("%s does not use the key", id)
		}
	}
	needed := map[string]struct {
		service string
		actions []string
	}{ // sources: the developer guides of the services
		"AWS::DynamoDB::Table":  {"dynamodb.REGION.amazonaws.com", []string{"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"}},
		"AWS::Lambda::Function": {"lambda.REGION.amazonaws.com", []string{"kms:CreateGrant", "kms:Decrypt", "kms:Encrypt"}},
		"AWS::Logs::LogGroup":   {"logs.REGION.amazonaws.com", []string{"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo"}},
		"AWS::S3::Bucket":       {"s3.REGION.amazonaws.com", []string{"kms:Decrypt", "kms:GenerateDataKey"}},
		"AWS::SNS::Topic":       {"cloudwatch.amazonaws.com", []string{"kms:Decrypt", "kms:GenerateDataKey"}},
		"AWS::SQS::Queue":       {"sqs.REGION.amazonaws.com", []string{"kms:Decrypt", "kms:GenerateDataKey"}},
	}
	for typ, id := range used {
		n, known := needed[typ]
		if !known && typ != "AWS::SSM::Parameter" {
			t.Errorf("%s, a %s, uses the key, but this test does not know which permissions its service needs", id, typ)
		}
		for _, action := range n.actions {
			if !p.allowsService(n.service, action) {
				t.Errorf("the key's policy does not allow %s to %s, for %s", action, n.service, id)
			}
		}
	}
	for id, r := range all["prod"].Resolved.Resources {
		for _, name := range []string{"KmsKeyArn", "KmsKeyId", "KmsMasterKeyId"} {
			if r.Properties[name] != nil {
				t.Errorf("without a key, %s has %s", id, name)
			}
		}
	}
}

// By default, tracing is off and no concurrency is reserved.
func TestTracingAndReservedConcurrencyAreParameters(t *testing.T) {
	t.Parallel()
	const on = "prod,Tracing=Active,ExportWorkerConcurrency=5"
	all := render(t, "prod", on)
	for id, f := range all[on].ofType("AWS::Lambda::Function") {
		if mode := valueAt(f.Properties, "TracingConfig", "Mode"); mode != "Active" {
			t.Errorf("%s has the tracing mode %v", id, mode)
		}
		reserved, off := f.Properties["ReservedConcurrentExecutions"], all["prod"].Resolved.Resources[id].Properties["ReservedConcurrentExecutions"]
		if want := map[string]any{"ExportWorkerFunction": "5"}[id]; reserved != want || off != nil {
			t.Errorf("%s reserves %v, by default %v", id, reserved, off)
		}
	}
}

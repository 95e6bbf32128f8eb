package repository_test

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/internal/template"
	"sluice/internal/test/templatetest"
)

// notMade lists the resource types that moto cannot create completely. Because aliases are among
// them, testdata/create_stack.py replaces references to an alias with references to its function.
var notMade = []string{
	"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::ApiMapping", "AWS::ApiGatewayV2::DomainName", "AWS::ApiGatewayV2::Stage", "AWS::Budgets::Budget",
	"AWS::CertificateManager::Certificate", "AWS::CloudFront::Distribution", "AWS::CloudFront::OriginRequestPolicy", "AWS::CloudWatch::Alarm", "AWS::CodeDeploy::Application", "AWS::CodeDeploy::DeploymentGroup",
	"AWS::Lambda::Alias", "AWS::Logs::MetricFilter", "AWS::S3::BucketPolicy", "AWS::SNS::Subscription",
	"AWS::SSM::Parameter", // moto's parameter has no attribute Value
}

// stack is the output of testdata/create_stack.py.
type stack struct {
	Status      string
	Types       map[string]string // logical id → type of each created resource
	Physical    map[string]string // logical id → name
	Unsupported []string
	Outputs     map[string]string
	Tables      map[string]any
	Roles       map[string][]any // logical id → policies that the stack defines
	Functions   map[string]any
}

// moto is another implementation of CloudFormation. The resources that it creates must match
// the template.
func TestStackIsCreatedByAnotherCloudFormation(t *testing.T) {
	t.Parallel()
	prod := render(t, "prod")["prod"]
	in, err := json.Marshal(map[string]any{"stack": prod.Stack, "template": prod.Rendered, "parameters": prod.Parameters})
	if err != nil {
		t.Fatal(err)
	}
	var s stack
	if err := json.Unmarshal(python(t, "moto", "moto", in, "internal/test/repository/testdata/create_stack.py"), &s); err != nil {
		t.Fatal(err)
	}
	if s.Status != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", s.Status)
	}
	same(t, "notMade", notMade, "moto", s.Unsupported)
	for id, r := range prod.Resolved.Resources {
		if s.Types[id] == "" && !slices.Contains(notMade, r.Type) {
			t.Errorf("%s, %s, was not created", id, r.Type)
		}
	}

	arns := make(map[string]string) // prefix of an ARN → logical id
	for _, table := range parse(t) {
		got := s.Tables[table.LogicalID]
		arns[fmt.Sprint(valueAt(got, "TableArn"))] = table.LogicalID
		checkTable(t, table, got)
		if output := s.Outputs[strings.TrimSuffix(table.LogicalID, "Table")+"TableName"]; output != s.Physical[table.LogicalID] {
			t.Errorf("the output with the name of %s is %q", table.LogicalID, output)
		}
	}
	for id, typ := range s.Types {
		switch typ {
		case "AWS::S3::Bucket":
			arns["arn:aws:s3:::"+s.Physical[id]] = id
		case "AWS::SQS::Queue":
			arns["arn:aws:sqs:us-east-1:123456789012:"+path.Base(s.Physical[id])] = id
		}
	}

	for _, f := range templatetest.Functions(t) {
		for variable, table := range f.Tables {
			if got := valueAt(s.Functions[f.LogicalID], "Environment", "Variables", variable); got != s.Physical[table] {
				t.Errorf("%s: %s is %v, want the name of %s", f.LogicalID, variable, got, table)
			}
		}
		checkGrants(t, f, s.Roles[f.LogicalID+"Role"], func(arn any) string { return logical(arns, fmt.Sprint(arn)) })
	}
}

// logical converts an ARN to the form of templatetest.Grant.Resource.
func logical(arns map[string]string, arn string) string {
	for prefix, id := range arns {
		if rest, ok := strings.CutPrefix(arn, prefix); ok && (rest == "" || rest[0] == '/') {
			if strings.HasPrefix(rest, "/stream/") {
				rest = ".StreamArn"
			}
			return id + rest
		}
	}
	return arn
}

// checkTable checks keys, indexes, stream and deletion protection. TestRenderedTemplate checks
// TTL, point-in-time recovery and encryption.
func checkTable(t *testing.T, want template.Table, got any) {
	t.Helper()
	text, err := json.Marshal(got)
	made := template.Table{LogicalID: want.LogicalID, TTL: want.TTL, BillingMode: template.Literal(fmt.Sprint(valueAt(got, "BillingModeSummary", "BillingMode")))}
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		t.Fatal(err)
	}
	if view, _ := valueAt(got, "StreamSpecification", "StreamViewType").(string); view == "" {
		made.StreamSpecification = nil
	}
	if len(made.GlobalSecondaryIndexes) == 0 {
		made.GlobalSecondaryIndexes = nil
	}
	if !reflect.DeepEqual(made, want) {
		t.Errorf("the created table is %+v, want %+v", made, want)
	}
	if protected := fmt.Sprint(valueAt(got, "DeletionProtectionEnabled")) == "true"; protected != (want.LogicalID != "CountersTable") {
		t.Errorf("%s: deletion protection is %t", want.LogicalID, protected)
	}
}

package repository_test

import (
	"strings"
	"testing"
)

// A version's description has at most 256 characters (Lambda API reference, PublishVersion), and an
// environment has at most 4 KB (Lambda Developer Guide, "Lambda quotas").
func TestTheLongestSettingsFit(t *testing.T) {
	t.Parallel()
	longest := "prod,RecordsPerSecond=1000000,ImportsPerSecond=900,RequestsPerSecond=900,ClientIpv6Prefix=128" +
		",ClientIpHeader=" + strings.Repeat("h", 40) + ",OriginSecretLabel=" + strings.Repeat("l", 32) + // without CloudFront, which the rules forbid with ClientIpHeader
		",OriginSecret=" + strings.Repeat("s", 128) + "," + strings.Repeat("t", 128) +
		",FailureMode=closed,EventShards=64,EventReadShards=64,ExportJobsPerWorkspace=100,ExportFileDays=90,EventRetentionDays=36500" +
		",AuthMode=api-key,Tracing=Disabled,KmsKeyArn=arn:aws:kms:us-east-1:123456789012:key/" + strings.Repeat("k", 54)
	const stackName = 128 // Source: CloudFormation API reference, CreateStack
	resources := render(t, longest)[longest].Resolved.Resources
	settings, ok := resources["Settings"].Properties["Value"].(string)
	if !ok || len(settings) > 256 || strings.Contains(settings, "${") || !strings.Contains(settings, strings.Repeat("k", 54)) {
		t.Errorf("the value of Settings has %d characters: %s", len(settings), settings)
	}
	most := 0
	for id, r := range resources {
		if r.Type != "AWS::Lambda::Function" {
			continue
		}
		size := stackName // SERVICE_NAME
		variables, _ := valueAt(r.Properties, "Environment", "Variables").(map[string]any)
		for name, v := range variables {
			size += len(name)
			switch v := v.(type) {
			case string:
				size += len(v)
			case map[string]any:
				if ref, ok := v["Ref"].(string); ok {
					size += stackName + len(ref) + len("--0123456789ABC") // the name that CloudFormation gives a table
				} else {
					size += len(settings)
				}
			}
		}
		if most = max(most, size); size > 4096 {
			t.Errorf("the environment of %s has %d bytes", id, size)
		}
	}
	t.Logf("Settings: %d characters, largest environment: %d bytes", len(settings), most)
}

// A template has at most 500 resources and 1 MB (CloudFormation User Guide, "CloudFormation quotas").
func TestTheTemplateFits(t *testing.T) {
	t.Parallel()
	r := render(t, everything)[everything]
	if n := len(r.Resolved.Resources); n > 500 || len(r.Rendered) > 1<<20 {
		t.Errorf("the rendered template has %d resources and %d bytes", n, len(r.Rendered))
	} else {
		t.Logf("%d resources, %d bytes", n, len(r.Rendered))
	}
}

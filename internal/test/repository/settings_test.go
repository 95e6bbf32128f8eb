package repository_test

import (
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice"
)

// SAM publishes a new version of a function if the version's description changes, but not if
// only the value of a parameter changes. So the description must contain every parameter that
// an environment variable uses.
func TestSettingsNameEveryParameterOfAnEnvironment(t *testing.T) {
	t.Parallel()
	var doc struct {
		Parameters map[string]any `yaml:"Parameters"`
		Globals    yaml.Node      `yaml:"Globals"`
		Resources  map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(sluice.Template, &doc); err != nil {
		t.Fatal(err)
	}
	settings := doc.Resources["Settings"].Properties
	text, err := yaml.Marshal(&settings)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	check := func(owner string, n yaml.Node) {
		names := refs(member(member(&n, "Environment"), "Variables"))
		names = append(append(names, refs(member(&n, "Tracing"))...), refs(member(&n, "KmsKeyArn"))...) // a version of a function also includes these settings
		for _, name := range names {
			if _, parameter := doc.Parameters[name]; !parameter {
				continue
			}
			seen++
			if name == "OriginSecret" {
				name = "OriginSecretLabel" // changes with OriginSecret, but is not secret
			}
			if !strings.Contains(string(text), "${"+name+"}") {
				t.Errorf("%s has the parameter %s in its environment, which Settings does not name", owner, name)
			}
		}
	}
	check("Globals", *member(&doc.Globals, "Function"))
	for id, r := range doc.Resources {
		if r.Type == "AWS::Serverless::Function" {
			check(id, r.Properties)
			if v := member(&r.Properties, "VersionDescription"); v.Tag != "!GetAtt" || v.Value != "Settings.Value" {
				t.Errorf("%s lacks the VersionDescription !GetAtt Settings.Value", id)
			}
		}
	}
	if seen < 6 {
		t.Errorf("only %d parameters are in environments, so this test reads the wrong thing", seen)
	}
}

// Lambda allows 256 characters (API reference, PublishVersion).
func TestTheLongestSettingsFitIntoTheDescriptionOfAVersion(t *testing.T) {
	t.Parallel()
	longest := "prod,RecordsPerSecond=1000000,ImportsPerSecond=900,RequestsPerSecond=900,ClientIpv6Prefix=128" +
		",ClientIpHeader=" + strings.Repeat("h", 40) + ",OriginSecretLabel=" + strings.Repeat("l", 32) + // without CloudFront, which the rules forbid with ClientIpHeader
		",FailureMode=closed,EventShards=64,EventReadShards=64,ExportJobsPerWorkspace=100,ExportFileDays=90,EventRetentionDays=36500" +
		",AuthMode=api-key,Tracing=Disabled,KmsKeyArn=arn:aws:kms:us-east-1:123456789012:key/" + strings.Repeat("k", 54)
	text, ok := render(t, longest)[longest].Resolved.Resources["Settings"].Properties["Value"].(string)
	if !ok || len(text) > 256 || strings.Contains(text, "${") || !strings.Contains(text, strings.Repeat("k", 54)) {
		t.Errorf("the value of Settings has %d characters: %s", len(text), text)
	}
}

// member returns an empty node if the key is missing.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return new(yaml.Node)
}

// refs returns the names that !Ref and !Sub refer to.
func refs(n *yaml.Node) (names []string) {
	switch n.Tag {
	case "!Ref":
		names = append(names, n.Value)
	case "!Sub":
		for _, m := range regexp.MustCompile(`\$\{(\w+)\}`).FindAllStringSubmatch(n.Value, -1) {
			names = append(names, m[1])
		}
	}
	for _, c := range n.Content {
		names = append(names, refs(c)...)
	}
	return names
}

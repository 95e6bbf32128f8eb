package repository_test

import (
	"reflect"
	"testing"
)

// With a certificate for CloudFront, the stack has a distribution that sends a secret to the
// functions, and the functions take the client's address from a header that CloudFront adds.
// Without a certificate, there is no distribution, and the functions expect no secret.
func TestADistributionInFrontOfTheAPI(t *testing.T) {
	t.Parallel()
	const (
		acl  = "arn:aws:wafv2:us-east-1:123456789012:global/webacl/sluice/1"
		with = "prod,DomainName=api.example.com,HostedZoneId=Z1,WebAclArn=" + acl +
			",CloudFrontCertificateArn=arn:aws:acm:us-east-1:123456789012:certificate/1,OriginSecret=the-first-secret"
		domain = "prod,DomainName=api.example.com,HostedZoneId=Z1"
	)
	all := render(t, "prod", domain, with)
	for _, name := range []string{"prod", domain} {
		r := all[name]
		if n := len(r.ofType("AWS::CloudFront::Distribution")) + len(r.ofType("AWS::CloudFront::OriginRequestPolicy")); n != 0 {
			t.Errorf("%s: %d resources of CloudFront", name, n)
		}
		variables := valueAt(r.Resolved.Resources["ListEntityFunction"].Properties, "Environment", "Variables")
		if valueAt(variables, "CLIENT_IP_HEADER") != "" || valueAt(variables, "ORIGIN_SECRET") != "" {
			t.Errorf("%s: the functions have %v", name, variables)
		}
	}

	r := all[with].Resolved.Resources
	want := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	for id, f := range all[with].ofType("AWS::Lambda::Function") {
		want(id+"'s header", valueAt(f.Properties, "Environment", "Variables", "CLIENT_IP_HEADER"), "CloudFront-Viewer-Address")
		want(id+"'s secret", valueAt(f.Properties, "Environment", "Variables", "ORIGIN_SECRET"), "the-first-secret")
	}
	distribution := valueAt(r["Distribution"].Properties, "DistributionConfig")
	want("the web ACL", valueAt(distribution, "WebACLId"), acl)
	want("the host name", valueAt(distribution, "Aliases"), []any{"api.example.com"})
	want("the origin", valueAt(distribution, "Origins", 0, "DomainName"), attribute("Domain", "RegionalDomainName"))
	want("the origin's header", valueAt(distribution, "Origins", 0, "OriginCustomHeaders", 0, "HeaderName"), "X-Origin-Secret")
	want("the origin's secret", valueAt(distribution, "Origins", 0, "OriginCustomHeaders", 0, "HeaderValue"),
		map[string]any{"Fn::Select": []any{0.0, map[string]any{"Fn::Split": []any{",", "the-first-secret"}}}})
	want("the forwarded headers", valueAt(r["OriginRequestPolicy"].Properties, "OriginRequestPolicyConfig", "HeadersConfig"),
		map[string]any{"HeaderBehavior": "allViewerAndWhitelistCloudFront", "Headers": []any{"CloudFront-Viewer-Address"}})
	for i := range 2 {
		want("the record", valueAt(r["DomainRecords"].Properties, "RecordSets", i, "AliasTarget", "DNSName"), attribute("Distribution", "DomainName"))
		want("the record", valueAt(all[domain].Resolved.Resources["DomainRecords"].Properties, "RecordSets", i, "AliasTarget", "DNSName"), attribute("Domain", "RegionalDomainName"))
	}
	// With a domain name, the API's default endpoint is disabled, because requests to it would
	// bypass CloudFront.
	for name, closed := range map[string]any{"prod": false, domain: true, with: true} {
		body := valueAt(all[name].Resolved.Resources["Api"].Properties, "Body")
		endpoint := valueAt(body, "servers", 0, "x-amazon-apigateway-endpoint-configuration", "disableExecuteApiEndpoint")
		if endpoint == nil {
			endpoint = valueAt(all[name].Resolved.Resources["Api"].Properties, "DisableExecuteApiEndpoint")
		}
		want(name+": the API's own endpoint is closed", endpoint, closed)
	}
}

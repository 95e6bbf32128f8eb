package repository_test

import (
	"fmt"
	"strings"
	"testing"
)

// The rules refuse parameters with which functions would not start or a setting would have no
// effect. They accept the environments of samconfig.toml.
func TestRulesRefuseParametersThatDoNotFitTogether(t *testing.T) {
	t.Parallel()
	const (
		domain      = ",DomainName=api.example.com"
		certificate = ",CloudFrontCertificateArn=arn:aws:acm:us-east-1:123456789012:certificate/1"
		secret      = ",OriginSecret=0123456789abcdef"
		acl         = ",WebAclArn=arn:aws:wafv2:us-east-1:123456789012:global/webacl/sluice/1"
	)
	refused := map[string]string{ // parameters → beginning of the reason; "" if they are accepted
		"dev":  "",
		"prod": "",
		"prod" + domain + certificate + secret + acl:                           "",
		"prod,ClientIpHeader=X-Client-Ip" + secret:                             "",
		"prod,MonthlyBudget=100":                                               "MonthlyBudget needs AlarmEmail",
		"prod,HostedZoneId=Z1":                                                 "HostedZoneId needs DomainName",
		"prod" + certificate + secret:                                          "CloudFrontCertificateArn needs DomainName",
		"prod" + domain + certificate:                                          "CloudFrontCertificateArn needs OriginSecret",
		"prod" + domain + certificate + secret + ",ClientIpHeader=X-Client-Ip": "With CloudFrontCertificateArn",
		"prod" + domain + acl:                                                  "WebAclArn needs CloudFrontCertificateArn",
		"prod" + secret:                                                        "OriginSecret needs CloudFrontCertificateArn or ClientIpHeader",
		"prod" + domain + secret:                                               "OriginSecret needs CloudFrontCertificateArn or ClientIpHeader", // for a stack from which only the certificate was removed
	}
	// Lists must read at least as many shards as imports write.
	shards := []int{1, 2, 4, 8, 16, 32, 64}
	for i, write := range shards {
		for _, read := range shards[:i] {
			refused[fmt.Sprintf("prod,EventShards=%d,EventReadShards=%d", write, read)] = "EventShards must not exceed EventReadShards"
		}
	}
	for _, both := range [][2]int{{1, 2}, {2, 32}, {4, 8}, {8, 8}, {16, 32}, {32, 64}} {
		refused[fmt.Sprintf("prod,EventShards=%d,EventReadShards=%d", both[0], both[1])] = ""
	}
	var arguments []string
	for a := range refused {
		arguments = append(arguments, a)
	}
	for a, r := range render(t, arguments...) {
		switch want := refused[a]; {
		case want == "" && len(r.Refused) > 0:
			t.Errorf("%s is refused: %q", a, r.Refused)
		case want != "" && (len(r.Refused) != 1 || !strings.HasPrefix(r.Refused[0], want)):
			t.Errorf("%s is refused with %q, want %q", a, r.Refused, want)
		}
	}
}

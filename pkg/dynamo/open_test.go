package dynamo

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/entity"
)

func TestOpenNamesTheVariableOfAMissingTable(t *testing.T) {
	t.Parallel()
	client := dynamodb.New(dynamodb.Options{})
	tables := map[string]string{
		"COUNTERS_TABLE": "a", "LIMITS_TABLE": "b", "KEYS_TABLE": "c", "ENTITIES_TABLE": "d", "EVENTS_TABLE": "e", "EXPORT_JOBS_TABLE": "f", "ERASURE_JOBS_TABLE": "g",
	}
	for missing := range tables {
		_, err := Open(client, func(name string) string {
			if name == missing {
				return ""
			}
			return tables[name]
		}, entity.Clock{})
		if err == nil || !strings.Contains(err.Error(), missing) {
			t.Errorf("without %s: error %v", missing, err)
		}
	}
	if s, err := Open(client, func(name string) string { return tables[name] }, entity.Clock{}); err != nil || s.ErasureJobs == nil {
		t.Errorf("error %v", err)
	}
}

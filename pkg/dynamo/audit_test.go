package dynamo

import (
	"testing"

	"sluice/internal/test/dynamolocal"
	"sluice/pkg/audit"
	"sluice/pkg/storetest"
)

func TestAudit(t *testing.T) {
	storetest.Audit(t, func(t *testing.T) audit.Store {
		s, err := NewAudit(dynamolocal.Client(t), dynamolocal.Table(t, "AuditTable"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

package erasureworker_test

import (
	"regexp"
	"strconv"
	"testing"

	"sluice"
	"sluice/functions/internal/erasureworker"
)

// halfAPartition is half of the write units that a DynamoDB partition supports per second.
const halfAPartition = 500

func TestConcurrentRunsLeaveHalfOfAPartitionToNewEvents(t *testing.T) {
	m := regexp.MustCompile(`(?s)EventSourceArn: !GetAtt ErasureJobsTable\.StreamArn.*?ParallelizationFactor: (\d+)`).FindSubmatch(sluice.Template)
	if m == nil {
		t.Fatal("the template has no stream of ErasureJobsTable")
	}
	if runs, err := strconv.Atoi(string(m[1])); err != nil || runs*erasureworker.MaxRate > halfAPartition {
		t.Errorf("%d runs erase %d events per second each, error %v", runs, erasureworker.MaxRate, err)
	}
}

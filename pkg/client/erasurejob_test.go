package client_test

import (
	"errors"
	"testing"

	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/job"
)

func callErasureJobRoutes(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := t.Context()
	if _, _, err := c.CreateEntity(ctx, entity.Draft{ID: "erased"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		requested, err := c.EraseEntity(ctx, "erased")
		if err != nil || requested.ID != "erased" || requested.Status != job.Queued {
			t.Fatalf("erasure %+v, %v", requested, err)
		}
	}
	if _, err := c.GetEntity(ctx, "erased"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("after the erasure: %v", err)
	}
	if j, err := c.GetErasureJob(ctx, "erased"); err != nil || j.Status != job.Queued {
		t.Errorf("the job is %+v, %v", j, err)
	}
	if _, err := c.GetErasureJob(ctx, "none"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("a job that does not exist: %v", err)
	}
	page, err := c.ListEntityChanges(ctx, client.EntityChangeQuery{IncludeDeleted: true})
	if n := len(page.Data); err != nil || n == 0 || page.Data[n-1].ID != "erased" || !page.Data[n-1].Erased() {
		t.Errorf("the changes are %+v, %v", page, err)
	}
}

package job_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"sluice/pkg/bolt"
	"sluice/pkg/job"
)

// A greeting job greets a few people. It saves a checkpoint after each person, so that the
// next run can continue if this one is killed.
type greetings struct{ names []string }

type greeted struct {
	People int `json:"people"`
}

func (g greetings) Do(ctx context.Context, r *job.Run) (details any, err error) {
	var done greeted
	if err := r.Job.Decode(nil, &done); err != nil {
		return nil, err
	}
	for _, name := range g.names[done.People:] {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fmt.Println("hello,", name)
		done.People++
		if err := r.Save(done, done, true); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// Clean has nothing to remove.
func (greetings) Clean(context.Context, job.Job) error { return nil }

func Example() {
	dir, err := os.MkdirTemp("", "jobs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	db, err := bbolt.Open(filepath.Join(dir, "jobs.db"), 0o600, nil)
	if err != nil {
		panic(err)
	}
	defer db.Close() //nolint:errcheck // the file is removed

	kind := job.Kind{Name: "greeting", Keep: 24 * time.Hour}
	store, err := bolt.NewJobs(db, kind)
	if err != nil {
		panic(err)
	}
	worker, err := job.NewWorker(kind, store, greetings{[]string{"Ada", "Grace"}}, job.Config{})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	if _, _, err := job.Create(ctx, store, job.Job{Workspace: "demo", ID: "g1"}, time.Now()); err != nil {
		panic(err)
	}
	if err := worker.Run(ctx, "demo", "g1"); err != nil {
		panic(err)
	}
	ended, err := kind.Get(ctx, store, "demo", "g1", time.Now())
	fmt.Println(ended.Status, string(ended.Details), err)
	// Output:
	// hello, Ada
	// hello, Grace
	// succeeded {"people":2} <nil>
}

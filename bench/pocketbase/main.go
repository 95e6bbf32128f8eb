// Command pocketbase is a PocketBase server with a collection "entity", which anyone may read
// and write, with the indexes that Sluice has. It syncs a record to disk before it responds, like
// Sluice, and keeps no log of requests. It prints its address. Its argument is the data directory.
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"github.com/pocketbase/dbx"
	"github.com/pocketbase/pocketbase/apis"
	"github.com/pocketbase/pocketbase/core"
	_ "github.com/pocketbase/pocketbase/migrations"
)

func main() {
	app := core.NewBaseApp(core.BaseAppConfig{DataDir: os.Args[1], DBConnect: connect})
	if err := app.Bootstrap(); err != nil {
		log.Fatal(err)
	}
	app.OnServe().BindFunc(func(e *core.ServeEvent) (err error) {
		app.Settings().Logs.MaxDays = 0
		app.Settings().Batch = core.BatchConfig{Enabled: true, MaxRequests: 100, Timeout: 60}
		if err := app.Save(app.Settings()); err != nil {
			return err
		}
		if _, err := app.FindCollectionByNameOrId("entity"); err != nil {
			if err := app.Save(entities()); err != nil {
				return err
			}
		}
		if e.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return err
		}
		e.InstallerFunc = nil
		fmt.Printf("PocketBase listens on http://%s\n", e.Listener.Addr())
		return e.Next()
	})
	log.Fatal(apis.Serve(app, apis.ServeConfig{}))
}

func entities() *core.Collection {
	anyone := new("")
	c := core.NewBaseCollection("entity")
	c.ListRule, c.ViewRule, c.CreateRule, c.UpdateRule = anyone, anyone, anyone, anyone
	c.Fields.Add(&core.TextField{Name: "type"}, &core.TextField{Name: "email"}, &core.JSONField{Name: "attributes"},
		&core.AutodateField{Name: "created", OnCreate: true}, &core.AutodateField{Name: "updated", OnCreate: true, OnUpdate: true})
	c.AddIndex("by_type", false, "type, id", "")
	c.AddIndex("by_updated", false, "updated, id", "")
	c.AddIndex("by_email", false, "type, email, id", "") // SQLite would find by type without the id, which lists are sorted by
	return c
}

// connect opens a database as PocketBase does, but with synchronous(FULL): NORMAL may lose records.
func connect(path string) (*dbx.DB, error) {
	return dbx.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32000)")
}

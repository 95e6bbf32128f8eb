// Command pocketbase is a PocketBase server with a collection "entity", which anyone may read
// and write. It syncs a record to disk before it responds, like Sluice, and keeps no log of
// requests. It prints its address. Its argument is the data directory.
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
		if err := app.Save(app.Settings()); err != nil {
			return err
		}
		anyone := new("")
		entities := core.NewBaseCollection("entity")
		entities.ListRule, entities.ViewRule, entities.CreateRule = anyone, anyone, anyone
		entities.Fields.Add(&core.TextField{Name: "type"}, &core.JSONField{Name: "attributes"})
		if err := app.Save(entities); err != nil {
			return err
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

// connect opens a database as PocketBase does, but with synchronous(FULL): NORMAL may lose records.
func connect(path string) (*dbx.DB, error) {
	return dbx.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=journal_size_limit(200000000)&_pragma=synchronous(FULL)&_pragma=foreign_keys(ON)&_pragma=temp_store(MEMORY)&_pragma=cache_size(-32000)")
}

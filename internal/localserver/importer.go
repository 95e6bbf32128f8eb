package localserver

import (
	"context"
	"os"
	"time"

	"sluice/pkg/dashboard"
	"sluice/pkg/httpapi"
)

// importerInterval is how often the server looks for a new importer.
const importerInterval = time.Second

// followImporter gives the dashboard the importer in a directory, and each one that "make importer"
// builds there until ctx is done. It does nothing if dir is "".
func followImporter(ctx context.Context, dir string, api *httpapi.API) {
	if dir == "" {
		return
	}
	served := dashboard.Built(os.DirFS(dir)) // when the importer in use was built
	api.SetDashboard(dashboard.FilesWith(os.DirFS(dir)))
	go func() {
		again := time.NewTicker(importerInterval)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				if built := dashboard.Built(os.DirFS(dir)); !built.Equal(served) {
					api.SetDashboard(dashboard.FilesWith(os.DirFS(dir)))
					served = built
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

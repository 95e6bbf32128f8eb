// Package dashboard holds the web page through which people watch their limits,
// start large exports and browse records: plain HTML, CSS and JavaScript.
//
// The page reaches the API, and its own files, by relative URLs, so it works
// behind any stage or domain. It must stay within the Content-Security-Policy
// that package httpapi sends with it: no script, style or style attribute in
// the HTML, and no text that becomes markup.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
)

// Page is the name of the page among the files.
const Page = "index.html"

//go:embed page
var page embed.FS

// parts are the files that app.js consists of. They share one scope, as the
// files of a Go package do, so that each can be small and a browser loads one
// file. The last one starts the page when the others are there.
var parts = []string{
	"format.js", "dom.js", "notice.js", "api.js", "poll.js", "place.js", "caller.js",
	"chart.js", "usage.js", "job.js", "exports.js", "record.js", "records.js", "app.js",
}

// Files returns the files of the dashboard by name: Page, and its assets, whose
// names begin with a hash of the content of all of them and a slash. So an asset
// never changes, and a new version of the page loads new assets.
func Files() map[string][]byte {
	assets := []struct {
		name    string
		content []byte
	}{
		{"app.js", script()},
		{"style.css", read("style.css")},
		{"icon.svg", read("icon.svg")},
	}
	sum := sha256.New()
	for _, a := range assets {
		sum.Write(a.content)
	}
	version := hex.EncodeToString(sum.Sum(nil)[:8])
	files := map[string][]byte{Page: bytes.ReplaceAll(read(Page), []byte("{version}"), []byte(version))}
	for _, a := range assets {
		files[version+"/"+a.name] = a.content
	}
	return files
}

// script returns app.js.
func script() []byte {
	var all [][]byte
	for _, name := range parts {
		all = append(all, read(name))
	}
	return bytes.Join(all, []byte("\n"))
}

func read(name string) []byte {
	b, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // the file is embedded above
	}
	return b
}

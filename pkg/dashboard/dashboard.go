// Package dashboard contains the web page for finding records, watching limits, starting large
// exports and importing files. It is plain HTML, CSS and JavaScript.
//
// The page calls the API and loads its own files by relative URLs, so it works under any stage
// or domain. It must comply with the Content-Security-Policy that package httpapi sends with
// it: no scripts, styles or style attributes in the HTML, and no conversion of text to markup.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
)

const Page = "index.html"

//go:embed page vendor
var page embed.FS

// parts are the source files that make up app.js, the script that a browser loads. They share
// one scope, like the files of a Go package. The last one starts the page.
var parts = []string{
	"format.js", "time.js", "dom.js", "notice.js", "api.js", "poll.js", "query.js", "caller.js",
	"chart.js", "usage.js", "job.js", "exports.js",
	"lists.js", "find.js", "erase.js", "record.js", "records.js",
	"importrows.js", "importcells.js", "importrecord.js", "importsend.js", "importer.js", "app.js",
}

// Files returns the page, under the name Page, and its assets. The name of each asset begins
// with a hash of all assets and a slash, so the content behind that name never changes, and a
// new version of the page loads new assets.
func Files() map[string][]byte {
	assets := []struct {
		name    string
		content []byte
	}{
		{"app.js", script()},
		{"style.css", read("page/style.css")},
		{"icon.svg", read("page/icon.svg")},
		{"papaparse.js", papaparse()},
		{"sha256.js", read("vendor/sha256.min.mjs")},
	}
	sum := sha256.New()
	for _, a := range assets {
		sum.Write(a.content)
	}
	version := hex.EncodeToString(sum.Sum(nil)[:8])
	files := map[string][]byte{Page: bytes.ReplaceAll(read("page/"+Page), []byte("{version}"), []byte(version))}
	for _, a := range assets {
		files[version+"/"+a.name] = a.content
	}
	return files
}

func script() []byte {
	var all [][]byte
	for _, name := range parts {
		all = append(all, read("page/"+name))
	}
	return bytes.Join(all, []byte("\n"))
}

// papaparse returns Papa Parse as a module. The library expects CommonJS variables, but the
// page's Trusted Types policy allows scripts to load only modules.
func papaparse() []byte {
	return bytes.Join([][]byte{
		[]byte("const module = { exports: {} }, exports = module.exports;"),
		read("vendor/papaparse.min.js"),
		[]byte("export default module.exports;\n"),
	}, []byte("\n"))
}

func read(name string) []byte {
	b, err := page.ReadFile(name)
	if err != nil {
		panic(err) // cannot happen, because the file is embedded above
	}
	return b
}

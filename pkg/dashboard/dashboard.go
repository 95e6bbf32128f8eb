// Package dashboard holds the web page through which people watch their limits
// and start large exports: plain HTML, CSS and JavaScript modules that a
// browser takes as they are.
//
// The page reaches the API, and its own files, by relative URLs, so it works
// behind any stage or domain. It must stay within the Content-Security-Policy
// that package httpapi sends with it: no script, style or style attribute in
// the HTML, and no text that becomes markup.
package dashboard

import (
	"embed"
	"io/fs"
)

//go:embed page
var page embed.FS

// Files are the page, index.html, and what it loads.
func Files() fs.FS {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return files
}

package browsertest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

type look struct {
	viewport Viewport
	scheme   string
}

// looks returns usual viewports in both color schemes if screenshots are taken. Otherwise it
// returns only the smallest viewport in the light scheme and the largest in the dark scheme.
func looks(drawn bool) []look {
	if !drawn {
		return []look{{Phone, "light"}, {Desktop, "dark"}}
	}
	var all []look
	for _, v := range []Viewport{{390, 844}, Tablet, Desktop} {
		all = append(all, look{v, "light"}, look{v, "dark"})
	}
	return all
}

// Audit checks the page in several viewports and color schemes. axe-core must find no problem, no two
// elements may have the same id, and the page must not be wider than the window. If the environment
// variable SCREENSHOTS names a directory, Audit saves screenshots there as NAME-WIDTH-SCHEME.png.
func (tab *Tab) Audit(name string) {
	tab.t.Helper()
	if !Eval[bool](tab, "typeof axe === 'object'") {
		tab.Do(chromedp.Evaluate[chromedp.Void](tab.browser.axe))
	}
	if same := Eval[[]string](tab, sameIDs); len(same) > 0 {
		tab.t.Errorf("%s: several elements have the ids %q", name, same)
	}
	defer tab.Resize(tab.viewport)
	dir := os.Getenv("SCREENSHOTS")
	for _, l := range looks(dir != "") {
		tab.Resize(l.viewport)
		call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: l.scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		shown := fmt.Sprintf("%s-%d-%s", name, l.viewport.Width, l.scheme)
		for _, v := range Eval[[]string](tab, axeRun) {
			tab.t.Errorf("%s: %s", shown, v)
		}
		if over := Eval[int](tab, "document.documentElement.scrollWidth - innerWidth"); over > 0 {
			tab.t.Errorf("%s: the page is %d pixels wider than the window", shown, over)
		}
		if dir != "" {
			tab.draw(filepath.Join(dir, shown+".png"))
		}
	}
}

// axeRun evaluates to one line per element with a problem.
const axeRun = `axe.run(document, { resultTypes: ['violations'] }).then((r) =>
	r.violations.flatMap((v) => v.nodes.map((n) => v.id + ': ' + n.target.join(' ') + ': ' + n.failureSummary)))`

const sameIDs = `[...document.querySelectorAll('[id]')].map((e) => e.id).filter((id, i, all) => all.indexOf(id) !== i)`

func (tab *Tab) draw(path string) {
	tab.t.Helper()
	whole := true
	shot := call(tab, page.CaptureScreenshot, page.CaptureScreenshotParams{CaptureBeyondViewport: &whole})
	if err := os.WriteFile(path, shot.Data, 0o600); err != nil {
		tab.t.Fatal(err)
	}
}

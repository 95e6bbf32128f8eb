package money

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// docs/deploy.md tells the same prices.
func TestPricesAreThoseOfTheDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, costs, _ := strings.Cut(string(doc), "\n## What it costs\n")
	costs, _, _ = strings.Cut(costs, "\n## ")
	if !strings.Contains(costs, "List prices in "+pricesRegion+", "+pricesAsOf) {
		t.Errorf("it does not give the prices of %s, %s", pricesRegion, pricesAsOf)
	}
	for _, p := range allPrices {
		text := strconv.FormatFloat(p.dollars, 'f', -1, 64)
		if p.dollars >= 0.01 && len(text) < 4 {
			text = strconv.FormatFloat(p.dollars, 'f', 2, 64)
		}
		if want := text + " a " + p.per; !strings.Contains(costs, want) {
			t.Errorf("%s: it does not say %q", p.name, want)
		}
	}
}

package recordfile

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// neutralize puts an apostrophe before everything in the text of a cell that a
// spreadsheet would run as a formula. If keep is set, it does so only where the
// text has an apostrophe already, so that restore keeps that one.
func neutralize(text string, keep bool) string {
	return eachFormula(text, func(formula string) string {
		if keep && !strings.HasPrefix(formula, "'") {
			return formula
		}
		return "'" + formula
	})
}

// restore undoes neutralize.
func restore(text string) string {
	return eachFormula(text, func(formula string) string { return strings.TrimPrefix(formula, "'") })
}

// separators begin a new cell in some spreadsheets. Quotes do not help: where
// semicolons separate cells, a quote behind a comma is an ordinary character.
const separators = ";\t\r\n"

// eachFormula replaces each part of text that a spreadsheet would run. Such a
// part ends at the next separator. Whether it is one does not depend on its
// leading apostrophes, so a replacement that adds one can be undone.
func eachFormula(text string, replace func(formula string) string) string {
	var b strings.Builder
	done := 0 // bytes of text that are in b
	for start := 0; start <= len(text); {
		end := len(text)
		if i := strings.IndexAny(text[start:], separators); i >= 0 {
			end = start + i
		}
		if isFormula(text[start:end]) || start == 0 && isControl(text) {
			if start == 0 && isNumber(text) {
				return text
			}
			b.WriteString(text[done:start])
			b.WriteString(replace(text[start:end]))
			done = end
		}
		start = end + 1
	}
	if done == 0 && b.Len() == 0 {
		return text
	}
	b.WriteString(text[done:])
	return b.String()
}

// isFormula reports whether the first character of text makes a formula of it.
// Spreadsheets drop NULs, and quotes that follow a separator.
func isFormula(text string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, "'\"\x00"))
	return strings.ContainsRune("=+-@＝＋－＠", first)
}

// isControl reports whether text begins with a character that spreadsheets drop
// from the beginning of a cell.
func isControl(text string) bool {
	text = strings.TrimLeft(text, "'")
	return text != "" && strings.IndexByte("\t\r\n\x00", text[0]) >= 0
}

func isNumber(text string) bool { return number().MatchString(strings.TrimLeft(text, "'")) }

// number is compiled when a cell first needs it, not at each function's start.
var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
})

package recordfile

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

type cell struct {
	text   string
	quoted bool // whether it needs quotes
}

// fieldCell returns the cell for a member that is a string, a number or null.
func fieldCell(value jsontext.Value) (cell, error) {
	switch value.Kind() {
	case 'n':
		return cell{}, nil
	case '0':
		return cell{text: string(value)}, nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return cell{text: string(text)}, err
}

func attributeCell(value jsontext.Value) (cell, error) {
	if value.Kind() != '"' {
		return cell{text: string(value)}, nil
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	text := string(unquoted)
	switch JSONKind(strings.TrimLeft(text, "'")) {
	case '{', '[':
		return cell{text: "'" + text}, err
	}
	return cell{text: text, quoted: text == "" || JSONKind(text) != 0}, err
}

// AppendValue appends the value of an attribute's cell to b as JSON. text is as returned by Restore,
// and quoted says whether the cell has quotes.
func AppendValue(b []byte, text string, quoted bool) []byte {
	bare := strings.TrimLeft(text, "'")
	switch kind := JSONKind(bare); {
	case kind == '{' || kind == '[':
		if bare == text {
			return append(b, text...)
		}
		text = text[1:]
	case kind != 0 && bare == text && !quoted:
		return append(b, text...)
	}
	b, _ = jsontext.AppendQuote(b, text) // text is UTF-8
	return b
}

// JSONKind returns the kind of a cell's text: 0 if text is not JSON, is a JSON string, or begins or ends with white
// space.
func JSONKind(text string) jsontext.Kind {
	if text == "" || strings.IndexByte("{[-0123456789tfn", text[0]) < 0 || strings.TrimSpace(text) != text {
		return 0
	}
	if value := jsontext.Value(text); value.IsValid() {
		return value.Kind()
	}
	return 0
}

// neutralize puts an apostrophe before each part of a cell that a spreadsheet would evaluate as a
// formula. If keep is true, it does so only for parts that already begin with an apostrophe,
// which Restore would otherwise remove.
func neutralize(text string, keep bool) string {
	return eachFormula(text, func(formula string) string {
		if keep && !strings.HasPrefix(formula, "'") {
			return formula
		}
		return "'" + formula
	})
}

// Restore reverses neutralize: it returns the text of a cell without the apostrophes that a
// CSVWriter adds.
func Restore(text string) string {
	if !strings.Contains(text, "'") {
		return text
	}
	return eachFormula(text, func(formula string) string { return strings.TrimPrefix(formula, "'") })
}

// separators are characters after which some spreadsheets begin a new cell, even within
// quotes. For example, a spreadsheet that splits cells at semicolons treats a quote after a
// comma as an ordinary character, so a semicolon inside those quotes begins a new cell.
const separators = ";\t\r\n"

// eachFormula replaces each part of text that a spreadsheet would evaluate as a formula. A part
// ends at the next separator. Leading apostrophes are ignored, so that Restore and neutralize
// find the same parts.
func eachFormula(text string, replace func(formula string) string) string {
	if isNumber(text) {
		return text
	}
	var b strings.Builder
	for start := 0; start <= len(text); {
		part := text[start:]
		if i := strings.IndexAny(part, separators); i >= 0 {
			part = part[:i]
		}
		end := start + len(part)
		if isFormula(part) || start == 0 && isControl(text) {
			part = replace(part)
		}
		b.WriteString(part)
		b.WriteString(text[end:min(end+1, len(text))])
		start = end + 1
	}
	return b.String()
}

// isFormula ignores leading apostrophes. It also ignores leading NULs and quotes, because
// spreadsheets remove NULs and the quotes that follow a separator.
func isFormula(text string) bool {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(text, "'\"\x00"))
	return strings.ContainsRune("=+-@＝＋－＠", first)
}

// isControl reports whether text begins with a control character that spreadsheets remove.
func isControl(text string) bool {
	text = strings.TrimLeft(text, "'")
	return text != "" && strings.IndexByte("\t\r\n\x00", text[0]) >= 0
}

func isNumber(text string) bool { return number().MatchString(strings.TrimLeft(text, "'")) }

// number is compiled on first use, so that it does not slow down every cold start.
var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$`)
})

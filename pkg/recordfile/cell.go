package recordfile

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// cell is a cell of a CSV file.
type cell struct {
	text   string
	quoted bool // it stands in quotes, or must
}

// fieldCell returns the cell of a member that is a string or null.
func fieldCell(value jsontext.Value) (cell, error) {
	if value.Kind() == 'n' {
		return cell{}, nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return cell{text: string(text)}, err
}

// attributeCell returns the cell of an attribute.
func attributeCell(value jsontext.Value) (cell, error) {
	if value.Kind() != '"' {
		return cell{text: string(value)}, nil
	}
	unquoted, err := jsontext.AppendUnquote(nil, value)
	text := string(unquoted)
	switch jsonKind(strings.TrimLeft(text, "'")) {
	case '{', '[':
		return cell{text: "'" + text}, err
	}
	return cell{text: text, quoted: text == "" || jsonKind(text) != 0}, err
}

// appendAttribute appends the JSON value of the attribute in c.
func appendAttribute(b []byte, c cell) []byte {
	text := c.text
	bare := strings.TrimLeft(text, "'")
	switch kind := jsonKind(bare); {
	case kind == '{' || kind == '[':
		if bare == text {
			return append(b, text...)
		}
		text = text[1:]
	case kind != 0 && bare == text && !c.quoted:
		return append(b, text...)
	}
	b, _ = jsontext.AppendQuote(b, text) // the text is UTF-8
	return b
}

// jsonKind returns the kind of the JSON value that text is, or 0 if it is a
// string, has white space around it or is not JSON.
func jsonKind(text string) jsontext.Kind {
	if text == "" || strings.IndexByte("{[-0123456789tfn", text[0]) < 0 || strings.TrimSpace(text) != text {
		return 0
	}
	if value := jsontext.Value(text); value.IsValid() {
		return value.Kind()
	}
	return 0
}

package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/cases"

	"sluice/pkg/record"
)

const (
	maxTextBytes = 800 // of all values of a key; of a text, bytes of UTF-8, in which U+0000 counts twice; a DynamoDB key has at most 1,024 bytes
	maxDigits    = 38  // maximum number of significant digits
	maxExponent  = 125 // largest absolute exponent of a number in the form d.ddde±nnn

	// MaxKeyBytes is the size of a Key.Rest with the longest values and the longest id.
	MaxKeyBytes = maxTextBytes + MaxFields*len(endOfText) + record.MaxIDLength
)

const endOfText = "\x00\x01"

// Key is where an index sorts an entity: by the values of its attributes, then by id. The zero Key
// means that the index lacks the entity. No code is a prefix of another, and codes sort as values do.
// In hex:
//
//   - A text is its UTF-8, after folding if the field says so, with 00 FF for each 00, and then 00 01.
//   - Zero is 02. A positive number is 03, the exponent plus 128, the digits in ASCII without
//     trailing zeros, and 00. A negative number is 01, and then the complement of what follows
//     03 in the code of its absolute value.
//   - A boolean is 01 or 02.
type Key struct {
	Lead string // the code of the first value if the index covers several attributes; otherwise ""
	Rest string // the codes of the other values, and then the id
}

func (k Key) String() string { return k.Lead + k.Rest }

// first sorts before all keys. A code followed by last sorts after all keys with that code, because
// every byte of a code or an id is lower than last.
const (
	first = "\x00"
	last  = "\xff"
)

// Key returns the key of an entity for d, or the zero Key if the entity has none. present says
// whether the entity has all attributes.
func (d Declaration) Key(id string, attributes json.RawMessage) (key Key, present bool) {
	var codes [MaxFields]string
	fits, size := true, 0
	fields := d.Fields.List()
	for i, f := range fields {
		value := member(attributes, f.Name)
		if value == nil {
			return Key{}, false
		}
		code, err := f.code(value)
		codes[i], fits, size = code, fits && err == nil, size+f.ValueType.size(code)
	}
	if !fits || size > maxTextBytes {
		return Key{}, true
	}
	if len(fields) > 1 {
		key.Lead, codes[0] = codes[0], ""
	}
	key.Rest = strings.Join(codes[:], "") + id
	return key, true
}

// size returns what a code counts toward maxTextBytes.
func (k ValueType) size(code string) int {
	if k == Text {
		return len(strings.TrimSuffix(code, endOfText))
	}
	return len(code)
}

// member returns nil if the object has no such member. The object must be well-formed.
func member(object json.RawMessage, name string) jsontext.Value {
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for dec.PeekKind() == '"' {
		found, err := dec.ReadToken()
		if err != nil {
			return nil
		}
		if found.String() != name {
			if dec.SkipValue() != nil {
				return nil
			}
			continue
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		return value
	}
	return nil
}

var (
	errText    = fmt.Errorf("must be a text of at most %d bytes, because longer ones are not indexed", maxTextBytes)
	errUTF8    = errors.New("must be UTF-8")
	errNumber  = fmt.Errorf("must be a JSON number, such as 1815, of at most %d digits and from 1e-%d to 1e%[2]d", maxDigits, maxExponent)
	errBoolean = errors.New("must be true or false")
)

// code fails if value cannot be indexed in f.
func (f Field) code(value jsontext.Value) (string, error) {
	switch {
	case f.ValueType == Text && value.Kind() == '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return "", errText
		}
		return f.parse(string(text))
	case f.ValueType == Text:
		return "", errText
	case f.ValueType == Number && value.Kind() != '0':
		return "", errNumber
	}
	return f.parse(string(value))
}

// parse returns the code of a value from a query.
func (f Field) parse(value string) (string, error) {
	switch f.ValueType {
	case Text:
		return textCode(f.folded(value))
	case Number:
		return numberCode(value)
	}
	return booleanCode(value)
}

// folded returns the text that stands for all that differ from it only in case. Folding maps each
// character by itself, so the beginning of a text folds to the beginning of what the text folds to.
func (f Field) folded(text string) string {
	if !f.Fold {
		return text
	}
	return cases.Fold().String(text)
}

func textCode(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", errUTF8
	}
	code := escape(text) + endOfText
	if len(code) > maxTextBytes+len(endOfText) {
		return "", errText
	}
	return code, nil
}

func escape(text string) string { return strings.ReplaceAll(text, "\x00", "\x00\xff") }

func booleanCode(value string) (string, error) {
	switch value {
	case "false":
		return "\x01", nil
	case "true":
		return "\x02", nil
	}
	return "", errBoolean
}

func numberCode(text string) (string, error) {
	if v := jsontext.Value(text); !v.IsValid() || v.Kind() != '0' || strings.TrimSpace(text) != text {
		return "", errNumber
	}
	unsigned, negative := strings.CutPrefix(text, "-")
	mantissa, power, _ := strings.Cut(strings.ToLower(unsigned), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	padded := whole + fraction
	digits := strings.TrimLeft(padded, "0")
	exponent := len(whole) - 1 - (len(padded) - len(digits)) // power of ten of the first digit
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return "\x02", nil
	}
	if power != "" {
		n, err := strconv.Atoi(power)
		if err != nil || n > 1<<30 || n < -1<<30 {
			return "", errNumber
		}
		exponent += n
	}
	if len(digits) > maxDigits || exponent > maxExponent || exponent < -maxExponent {
		return "", errNumber
	}
	code := []byte("\x03" + string([]byte{byte(exponent + 128)}) + digits + "\x00")
	if negative {
		code[0] = 1
		for i := range code[1:] {
			code[i+1] ^= 0xff
		}
	}
	return string(code), nil
}

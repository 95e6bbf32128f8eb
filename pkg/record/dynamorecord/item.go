package dynamorecord

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// Item is a row of a table: attributes by name. Those of records are strings.
type Item = map[string]types.AttributeValue

// Text is s as an attribute.
func Text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

// size is about how many bytes of JSON the record in item takes: DynamoDB's
// own measure, names and values. The names stand in for JSON's punctuation.
func size(item Item) int {
	n := 0
	for name, value := range item {
		n += len(name)
		if s, ok := value.(*types.AttributeValueMemberS); ok {
			n += len(s.Value)
		}
	}
	return n
}

// Reader reads attributes of an Item and keeps the first error.
type Reader struct {
	item Item
	err  error
}

// Read makes a Reader of item.
func Read(item Item) *Reader { return &Reader{item: item} }

// Text is the value of an attribute that must be there.
func (r *Reader) Text(name string) string {
	if r.item[name] == nil {
		r.fail(name, "is missing")
	}
	return r.OptionalText(name)
}

// OptionalText is the value of an attribute, "" if it is not there.
func (r *Reader) OptionalText(name string) string {
	switch v := r.item[name].(type) {
	case nil:
		return ""
	case *types.AttributeValueMemberS:
		return v.Value
	default:
		r.fail(name, fmt.Sprintf("is a %T, not a string", v))
		return ""
	}
}

// Attributes is the value of an attribute that must be there and is JSON.
func (r *Reader) Attributes(name string) record.Attributes {
	a := record.Attributes(r.Text(name))
	if !json.Valid(a) {
		r.fail(name, "is not JSON") // answers show it as it is
	}
	return a
}

// Time is the value of an attribute that must be there and holds the text of a
// record.Time.
func (r *Reader) Time(name string) record.Time {
	t, err := record.ParseTime(r.Text(name))
	if err != nil {
		r.fail(name, "is "+err.Error())
	}
	return t
}

func (r *Reader) fail(name, detail string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s %s", name, detail)
	}
}

// Err is the first error: an attribute that is missing or not what it must be.
// What was read is then of no use.
func (r *Reader) Err() error { return r.err }

// Each reads every item with read, up to the first error.
func Each[R any](items []Item, read func(Item) (R, error)) ([]R, error) {
	records := make([]R, len(items))
	for i, item := range items {
		r, err := read(item)
		if err != nil {
			return nil, err
		}
		records[i] = r
	}
	return records, nil
}

package dynamorecord

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// Item is an item of a table: attributes by name. Those of records are strings.
type Item = map[string]types.AttributeValue

// Text returns s as an attribute value.
func Text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

// Number returns n as an attribute value.
func Number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// size returns about how many bytes the JSON of the record in item has. Like
// DynamoDB it counts names and values.
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

// Reader reads attributes of an Item and keeps the first error, after which what
// it returns is of no use.
type Reader struct {
	item Item
	err  error
}

// Read returns a Reader of item.
func Read(item Item) *Reader { return &Reader{item: item} }

// Text returns the value of an attribute that must exist.
func (r *Reader) Text(name string) string {
	if r.item[name] == nil {
		r.fail(name, "is missing")
	}
	return r.OptionalText(name)
}

// OptionalText returns the value of an attribute, "" if it does not exist.
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

// OptionalInt returns the value of a number attribute, 0 if it does not exist.
func (r *Reader) OptionalInt(name string) int64 {
	switch v := r.item[name].(type) {
	case nil:
		return 0
	case *types.AttributeValueMemberN:
		n, err := strconv.ParseInt(v.Value, 10, 64)
		if err != nil {
			r.fail(name, "is not a 64-bit integer")
		}
		return n
	default:
		r.fail(name, fmt.Sprintf("is a %T, not a number", v))
		return 0
	}
}

// Time returns the value of an attribute that must exist and be the text of a
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

// Err returns the first error: an attribute is missing or not what it must be.
func (r *Reader) Err() error { return r.err }

// Each returns the records that read returns for items, or its first error.
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

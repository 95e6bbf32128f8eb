package dynamo

import (
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"sluice/pkg/record"
)

// attributeValues is an item of a table. It maps names of attributes to values.
type attributeValues = map[string]types.AttributeValue

// text returns s as a string attribute value (S).
func text(s string) types.AttributeValue {
	return &types.AttributeValueMemberS{Value: s}
}

// number returns n as a number attribute value (N).
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// itemSize returns the approximate size of the record in item, as JSON, in bytes. It counts the
// bytes of names and values, as DynamoDB does.
func itemSize(item attributeValues) int {
	n := 0
	for name, value := range item {
		n += len(name)
		if s, ok := value.(*types.AttributeValueMemberS); ok {
			n += len(s.Value)
		}
	}
	return n
}

// itemReader reads attributes of an Item. It keeps the first error, which Err returns. After
// an error, callers must not use the values that its methods return.
type itemReader struct {
	item attributeValues
	err  error
}

// readItem returns a Reader of item.
func readItem(item attributeValues) *itemReader { return &itemReader{item: item} }

// Text returns the value of a string attribute, which must exist.
func (r *itemReader) Text(name string) string {
	if r.item[name] == nil {
		r.fail(name, "is missing")
	}
	return r.OptionalText(name)
}

// OptionalText returns the value of a string attribute, or "" if it does not exist.
func (r *itemReader) OptionalText(name string) string {
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

// OptionalInt returns the value of a number attribute, or 0 if it does not exist.
func (r *itemReader) OptionalInt(name string) int64 {
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

// Time returns the value of an attribute that contains the text of a record.Time. The
// attribute must exist.
func (r *itemReader) Time(name string) record.Time {
	t, err := record.ParseTime(r.Text(name))
	if err != nil {
		r.fail(name, "is "+err.Error())
	}
	return t
}

func (r *itemReader) fail(name, detail string) {
	if r.err == nil {
		r.err = fmt.Errorf("attribute %s %s", name, detail)
	}
}

// Err returns the first error, or nil. An error means that an attribute is missing or has
// the wrong type or format.
func (r *itemReader) Err() error { return r.err }

// each calls the function read for each item. It returns the records, or the first error
// that the function returns.
func each[R any](items []attributeValues, read func(attributeValues) (R, error)) ([]R, error) {
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

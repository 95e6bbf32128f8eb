package dynamoproxy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Access is an IAM permission that a call needs.
type Access struct {
	Action string // such as dynamodb:Query
	Table  string
	Index  string // "" for the table itself

	// Partition is the accessed partition of EntitiesTable, but only if its name begins with '#',
	// that is, if it belongs to no workspace. Otherwise Partition is "".
	Partition string
}

// transactActions maps each kind of operation in a transaction, by its JSON name, to the IAM
// action that it needs.
var transactActions = map[string]string{
	"ConditionCheck": "dynamodb:ConditionCheckItem", "Delete": "dynamodb:DeleteItem",
	"Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem", "Get": "dynamodb:GetItem",
}

func accesses(operation string, body map[string]any) []Access {
	text := func(body map[string]any, name string) string {
		s, _ := body[name].(string)
		return s
	}
	switch operation {
	case "BatchGetItem", "BatchWriteItem":
		tables, _ := body["RequestItems"].(map[string]any)
		var all []Access
		for table := range tables {
			all = append(all, Access{Action: "dynamodb:" + operation, Table: table})
		}
		return all
	case "TransactWriteItems", "TransactGetItems":
		items, _ := body["TransactItems"].([]any)
		var all []Access
		for _, item := range items {
			members, _ := item.(map[string]any)
			for member, v := range members {
				of, _ := v.(map[string]any)
				all = append(all, Access{Action: transactActions[member], Table: text(of, "TableName"), Partition: partition(of)})
			}
		}
		return all
	}
	return []Access{{Action: "dynamodb:" + operation, Table: text(body, "TableName"), Index: text(body, "IndexName"), Partition: partition(body)}}
}

func partition(body map[string]any) string {
	key, _ := body["Key"].(map[string]any)
	item, _ := body["Item"].(map[string]any)
	values, _ := body["ExpressionAttributeValues"].(map[string]any) // a query has its partition key here
	for _, v := range []any{key["workspace"], item["workspace"], values[":partition"]} {
		workspace, _ := v.(map[string]any)
		if name, _ := workspace["S"].(string); strings.HasPrefix(name, "#") {
			return name
		}
	}
	return ""
}

// Accesses returns the permissions that the calls so far have needed, sorted.
func (p *Proxy) Accesses() []Access {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(maps.Keys(p.accesses), func(a, b Access) int {
		return cmp.Or(strings.Compare(a.Action, b.Action), strings.Compare(a.Table, b.Table), strings.Compare(a.Index, b.Index), strings.Compare(a.Partition, b.Partition))
	})
}

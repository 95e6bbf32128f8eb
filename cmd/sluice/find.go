package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/internal/progress"
	"sluice/pkg/api"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
)

func findCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	var f finding
	cmd := &cobra.Command{
		Use:   "find {TYPE ATTRIBUTE [VALUE] [--gt|--gte VALUE] [--lt|--lte VALUE] [--prefix TEXT] [--where ATTRIBUTE=VALUE] | --events NAME [--from TIME] [--to TIME]}",
		Short: "Find entities by the values of indexed attributes, or events by name",
		Long: `Find entities by the values of indexed attributes, and print them as NDJSON in order
of these values, then of id. With --events, find the events of a name, in order of time.
"sluice indexes" chooses what is indexed. Standard error says which index served the
query. Each record costs one record. The key needs the scope export.

With --json, one JSON document has the records, the index of entities, and the cursor of
the next page, if --limit leaves more.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice find person email ada@example.com
  sluice find person born --gte 1815 --lt 1900 --desc
  sluice find person name --prefix Ad --limit 10
  sluice find order total --gte 100 --where status=paid
  sluice find --events order_paid --from 2026-01-05T00:00:00Z --to 2026-01-12T00:00:00Z`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case f.events.Name != "" && len(args) > 0:
				return errors.New("give --events NAME and no entity type, or a type and an attribute")
			case f.events.Name == "" && (len(args) < 2 || len(args) > 3):
				return errors.New("give an entity type, an attribute, and a value or flags such as --gte, for example: sluice find person email ada@example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := f.read(cmd, args); err != nil {
				return err
			}
			c, err := o.client(client.Config{})
			if err != nil {
				return err
			}
			f.out = bufio.NewWriter(cmd.OutOrStdout())
			err = f.run(cmd.Context(), c, cmd.ErrOrStderr())
			return errors.Join(f.out.Flush(), err)
		},
	}
	o.addFlags(cmd)
	f.addFlags(cmd)
	return cmd
}

func (f *finding) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("gt", "", "only values greater than this one")
	flags.String("gte", "", "only values greater than or equal to this one")
	flags.String("lt", "", "only values less than this one")
	flags.String("lte", "", "only values less than or equal to this one")
	flags.String("prefix", "", "only texts that begin with this one")
	flags.StringArrayVar(&f.where, "where", nil, "only entities with this value of a further attribute, as ATTRIBUTE=VALUE; needs an index on both; repeatable")
	flags.StringVar(&f.events.Name, "events", "", "the events of this name, instead of entities")
	flags.StringVar(&f.from, "from", "", "with --events: only events at this time (RFC 3339) or later")
	flags.StringVar(&f.to, "to", "", "with --events: only events before this time (RFC 3339)")
	flags.BoolVar(&f.q.Descending, "desc", false, "the greatest value, or the newest event, first")
	flags.IntVar(&f.most, "limit", 0, "maximum number of records (default: all)")
	flags.StringVar(&f.q.Cursor, "cursor", "", "continue where --limit ended an earlier call with the same arguments")
	flags.BoolVar(&f.json, "json", false, "print one JSON document")
}

// read reads the query from the arguments and the flags.
func (f *finding) read(cmd *cobra.Command, args []string) (err error) {
	if err := requireValues(cmd, "events", "from", "to"); err != nil {
		return err
	}
	if f.most < 0 {
		return usageError("--limit must be at least 1")
	}
	if f.events.Name == "" {
		if f.from != "" || f.to != "" {
			return usageError("--from and --to need --events")
		}
		f.q.Type = args[0]
		f.q.Where, err = conditions(cmd, args[1:], f.where)
		return err
	}
	for _, of := range []string{"gt", "gte", "lt", "lte", "prefix", "where"} {
		if cmd.Flags().Changed(of) {
			return usageError("--%s is a condition on entities; with --events, give --from and --to", of)
		}
	}
	if f.events.From, err = parseTime("--from", f.from); err != nil {
		return err
	}
	f.events.To, err = parseTime("--to", f.to)
	return err
}

// conditions returns those of the arguments, an attribute and perhaps its value, and of the flags.
func conditions(cmd *cobra.Command, args, where []string) (all []client.Condition, err error) {
	if len(args) == 2 {
		all = append(all, client.Condition{Attribute: args[0], Value: args[1]})
	}
	for _, op := range []string{"gt", "gte", "lt", "lte", "prefix"} {
		if f := cmd.Flags().Lookup(op); f.Changed {
			all = append(all, client.Condition{Attribute: args[0], Operator: op, Value: f.Value.String()})
		}
	}
	if len(all) == 0 {
		return nil, usageError("give a value, or a flag such as --gte or --prefix")
	}
	for _, text := range where {
		attribute, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usageError("--where must be an attribute and its value, such as status=paid, not %q", text)
		}
		all = append(all, client.Condition{Attribute: attribute, Value: value})
	}
	return all, nil
}

// finding reads the pages of what a query finds.
type finding struct {
	q        client.FindQuery
	where    []string
	events   client.EventQuery // if it has a Name, it is the query, with the order and the cursor of q
	from, to string
	most     int // maximum number of records; 0 for all
	json     bool
	out      *bufio.Writer
}

const maxPage = 200

func (f *finding) run(ctx context.Context, c *client.Client, stderr io.Writer) error {
	if f.events.Name == "" {
		return findPages(f, entityNoun, stderr, func(cursor string, limit int) (client.Page[entity.Entity], error) {
			f.q.Cursor, f.q.Limit = cursor, limit
			return c.FindEntities(ctx, f.q)
		})
	}
	f.events.Ascending = !f.q.Descending
	return findPages(f, eventNoun, stderr, func(cursor string, limit int) (client.Page[event.Event], error) {
		f.events.Cursor, f.events.Limit = cursor, limit
		return c.ListEvents(ctx, f.events)
	})
}

type printable interface{ AppendJSON([]byte) ([]byte, error) }

// findPages prints the records of the pages that next reads.
func findPages[T printable](f *finding, noun progress.Noun, stderr io.Writer, next func(cursor string, limit int) (client.Page[T], error)) error {
	all := client.Page[T]{Data: []T{}}
	for n, limit, cursor := 0, 0, f.q.Cursor; ; {
		if f.most > 0 {
			limit = min(f.most-n, maxPage)
		}
		page, err := next(cursor, limit)
		if err != nil {
			return err
		}
		n += len(page.Data)
		all.NextCursor, all.Index = page.NextCursor, page.Index
		if f.json {
			all.Data = append(all.Data, page.Data...)
		} else if err := printRecords(f.out, page.Data); err != nil {
			return err
		}
		switch more := page.NextCursor != nil && (f.most == 0 || n < f.most); {
		case more && *page.NextCursor == cursor:
			return errors.New("the next cursor leads to the same page")
		case more:
			cursor = *page.NextCursor
		case f.json:
			return printJSON(f.out, all)
		default:
			fmt.Fprintln(stderr, foundText(noun, n, page.Index, page.NextCursor))
			return nil
		}
	}
}

func printRecords[T printable](out io.Writer, found []T) error {
	for _, r := range found {
		line, err := r.AppendJSON(nil)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s\n", line)
	}
	return nil
}

// foundText says how many records a query found, by which index, and how to get more. Without an
// index of entities, it is that of events by name.
func foundText(noun progress.Noun, n int, by *api.EntityIndex, next *string) string {
	text := fmt.Sprintf("No %s matches", noun.One)
	if n > 0 {
		text = noun.Count(int64(n))
	}
	if noun == eventNoun {
		text += ", by the index on name"
	}
	if by != nil {
		var fields index.Fields
		for i, a := range by.Attributes {
			fields[i] = index.Field{Name: a.Name, ValueType: index.ValueType(a.ValueType), Fold: a.Fold}
		}
		text += ", by the index on " + fields.String()
	}
	if next != nil {
		return text + ". For more, add --cursor " + *next
	}
	return text + "."
}

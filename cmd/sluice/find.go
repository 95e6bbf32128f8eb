package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"sluice/pkg/client"
	"sluice/pkg/entity"
)

func findCommand(getenv func(string) string) *cobra.Command {
	o := connection{getenv: getenv}
	var q client.FindQuery
	var where []string
	most := 0
	cmd := &cobra.Command{
		Use:   "find TYPE ATTRIBUTE [VALUE] [--gt|--gte VALUE] [--lt|--lte VALUE] [--prefix TEXT] [--where ATTRIBUTE=VALUE]",
		Short: "Find entities by the values of indexed attributes",
		Long: `Find entities by the values of indexed attributes, and print them as NDJSON in order
of these values, then of id. "sluice indexes" chooses the attributes. Each entity costs
one record. The key needs the scope export.

` + connectionHelp + "\n\n" + exitCodesHelp,
		Example: `  sluice find person email ada@example.com
  sluice find person born --gte 1815 --lt 1900 --desc
  sluice find person name --prefix Ad --limit 10
  sluice find order total --gte 100 --where status=paid`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return errors.New("give an entity type, an attribute, and a value or flags such as --gte, for example: sluice find person email ada@example.com")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			q.Type = args[0]
			if q.Where, err = conditions(cmd, args[1:], where); err != nil {
				return err
			}
			if most < 0 {
				return usageError("--limit must be at least 1")
			}
			c, err := o.client(client.Config{})
			if err != nil {
				return err
			}
			return printFound(cmd.OutOrStdout(), cmd.ErrOrStderr(), c.Found(cmd.Context(), q), most)
		},
	}
	o.addFlags(cmd)
	flags := cmd.Flags()
	flags.String("gt", "", "only values greater than this one")
	flags.String("gte", "", "only values greater than or equal to this one")
	flags.String("lt", "", "only values less than this one")
	flags.String("lte", "", "only values less than or equal to this one")
	flags.String("prefix", "", "only texts that begin with this one")
	flags.StringArrayVar(&where, "where", nil, "only entities with this value of a further attribute, as ATTRIBUTE=VALUE; needs an index on both; repeatable")
	flags.BoolVar(&q.Descending, "desc", false, "the greatest value first")
	flags.IntVar(&most, "limit", 0, "maximum number of entities (default: all)")
	return cmd
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

// printFound prints all entities if limit is 0.
func printFound(stdout, stderr io.Writer, found iter.Seq2[entity.Entity, error], limit int) error {
	out := bufio.NewWriter(stdout)
	n := 0
	for e, err := range found {
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		line, err := e.AppendJSON(nil)
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		fmt.Fprintf(out, "%s\n", line)
		if n++; n == limit {
			break
		}
	}
	if n == 0 {
		fmt.Fprintln(stderr, "No entity matches.")
	}
	return out.Flush()
}

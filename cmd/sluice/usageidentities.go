package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sluice/pkg/client"
)

// printIdentities prints who has used the most, or was refused the most.
func printIdentities(cmd *cobra.Command, o usageOptions) error {
	c, err := o.client(client.Config{})
	if err != nil {
		return err
	}
	list, err := c.UsageOfAll(cmd.Context(), o.identities, o.sort)
	switch {
	case err != nil:
		return err
	case o.json:
		return printJSON(cmd.OutOrStdout(), list)
	case list.Data == nil && list.RefusalsQuery != nil:
		return fmt.Errorf("on AWS, nothing has the counters of all addresses: --identities day and month list API keys, and the saved query %s says who is refused; run it at %s", list.RefusalsQuery.Name, list.RefusalsQuery.URL)
	case list.Data == nil:
		return errors.New("nothing has the counters of all addresses, because several processes can share them: --identities day and month list API keys")
	case len(list.Data) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "Nothing was used in this %s.\n", list.Period)
	default:
		if err := writeIdentities(cmd.OutOrStdout(), list); err != nil {
			return err
		}
	}
	if list.LeftOut > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d more are left out.\n", list.LeftOut)
	}
	if !list.Complete {
		fmt.Fprintln(cmd.ErrOrStderr(), "Some API keys were not read, because there are too many: \"sluice usage --all-keys\" reads all.")
	}
	return nil
}

func writeIdentities(out io.Writer, list client.UsageIdentities) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	ofMinute := list.Period == "minute"
	head := "COUNTED\tOF LIMIT\tRECORDS\tIMPORTS\t"
	if ofMinute {
		head += "REQUESTS\tREFUSED\t"
	}
	fmt.Fprintln(w, head+"ACTION\tWORKSPACE\tPLAN\tNAME")
	for _, u := range list.Data {
		share := "-"
		if u.Share != nil {
			share = strconv.FormatFloat(100**u.Share, 'f', 1, 64) + " %"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t", u.Counted, share, u.Records, u.Imports)
		if ofMinute {
			fmt.Fprintf(w, "%d\t%d\t", *u.Requests, *u.Refused)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", u.Action, cmp.Or(u.Workspace, "-"), cmp.Or(u.Plan, "-"), cmp.Or(u.Name, "-"))
	}
	return w.Flush()
}

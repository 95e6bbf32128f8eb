package dynamostore

import "time"

// SetTimeout sets how long a charge of s may take.
func SetTimeout(s *Store, d time.Duration) { s.timeout = d }

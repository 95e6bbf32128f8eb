package httpapi

// AppendJSON is what writes every reply.
var AppendJSON = appendJSON

// ListBody is a reply that shows a list.
type ListBody[T any] = listBody[T]

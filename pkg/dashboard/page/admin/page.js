// What the views of administration use of the rest of the page.

import {
  $, ApiError, Button, Command, Copy, Empty, Fact, Field, Icon, Link, Notice, Poller, Segments, Skeleton, Stored, Time, Value, Zone,
  amendQuery, announce, call, caller, changesBetween, commandOf, count, curlCommand, denied, draw, failureText, finalText, follow, html, insist, instant,
  moveTo, number, plain, readQuery, report, sentence, session, takeIndexes, toInput, toUTC, troubles, useLayoutEffect, useRef, useState, view, viewQuery, views, visibleJSON, withQuery,
} from './app.js';

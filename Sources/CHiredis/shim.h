// hiredis as Swift sees it: only its codec. The sockets are SwiftNIO's.
#pragma once

#if defined(__has_include) && !__has_include(<hiredis/hiredis.h>)
#error "the headers of hiredis are missing: apt-get install libhiredis-dev"
#endif

// Reply types, redisReader and its error codes (0.14 and 1.x).
#include <hiredis/read.h>
// redisReply, redisReaderCreate, freeReplyObject, redisFormatCommandArgv, redisFreeCommand, HIREDIS_MAJOR.
#include <hiredis/hiredis.h>

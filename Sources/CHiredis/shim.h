// hiredis as Swift sees it: only its codec. The sockets are SwiftNIO's.
#pragma once

// Reply types, redisReader and its error codes (0.14 and 1.x).
#include <hiredis/read.h>
// redisReply, redisReaderCreate, freeReplyObject, redisFormatCommandArgv, redisFreeCommand, HIREDIS_MAJOR.
#include <hiredis/hiredis.h>
